# Everything happens in .venv of this folder; nothing is installed outside it.
#
#   make demo        set up, recover a hidden network, write runs/demo with a page to look at
#   make test        set up, check style, types and layers, run the tests
#   make test-slow   the tests that take more than a minute
#   make format      put the code into the form that make test asks for

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-slow check format clean

demo: $(VENV)/.installed
	@$(BIN)/wstar recover --out runs/demo --force

# the page's tests want chromium on the path (Debian: apt-get install chromium) and are skipped without it
test: check
	@$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(VENV)/.installed-test
	@$(BIN)/python -m pytest -m slow

check: $(VENV)/.installed-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-test
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist .pytest_cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache

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
