# Everything happens in .venv of this folder; nothing is installed outside it.
#
#   make demo        set up, recover a hidden network, write runs/demo with a page to look at
#   make test        set up, check style, types and layers, run the tests
#   make test-slow   the tests that take more than a minute
#   make test-oldest the oldest supported versions, in .venv-oldest, and a selection of the tests
#   make docs        the site, in site/
#   make format      put the code into the form that make test asks for

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# test processes
WORKERS ?= 2

.PHONY: demo test test-slow test-oldest docs check format clean

demo: $(VENV)/.installed
	@$(BIN)/wstar recover --out runs/demo --force

# the page's tests want chromium on the path (Debian: apt-get install chromium) and are skipped without it
test: check
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(VENV)/.installed-test
	@$(BIN)/python -m pytest -m slow

# what reaches furthest into the dependencies in a few minutes: arrays, checkpoints after a kill, and pages whose blocks
# use optimum, claims, estimators, baselines and run folders
OLDEST := networks or resume or installation or theorist or how-to.tables or how-to.runs
test-oldest: .venv-oldest/.installed
	@.venv-oldest/bin/python -m pytest -q -n $(WORKERS) -k '$(OLDEST)' \
		tests/test_networks.py tests/test_resume.py tests/test_docs_code.py

docs: $(VENV)/.installed-test
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

check: $(VENV)/.installed-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-test
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-oldest build dist site .pytest_cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("wstar needs Python 3.11 or newer: make PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# the stamps are newer than pyproject.toml for as long as the dependencies stay as they are
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(VENV)/.installed $@

.venv-oldest/.installed: pyproject.toml constraints/oldest.txt
	@echo "setting up .venv-oldest"
	@$(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints/oldest.txt \
		--editable . beartype hypothesis mpmath pytest pytest-xdist
	@touch $@
