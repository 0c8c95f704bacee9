"""The notebooks' cells run in order, and they are stored without outputs.

They are run as a program and not by a Jupyter kernel: a kernel would be a process and a compilation for each, and five
packages more for the tests, to check what Jupyter does with cells rather than what these do.
"""

from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.usefixtures("as_shipped")
def test_the_cells_of_a_notebook_run_in_order(path, tmp_path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            assert not cell.outputs
            assert cell.execution_count is None
            exec(compile(cell.source, f"{path.name}, cell {number}", "exec"), names)


def test_there_is_a_notebook_for_each_reader():
    assert {path.stem for path in NOTEBOOKS} == {"three-stages", "winning-tickets", "table"}
