"""Notebooks: what IPython alone understands is no error, and every line leads back to its cell."""

import json
from typing import Any

import pytest

from gpuproof.linter.source import notebook
from gpuproof.linter.source.decode import Unreadable
from gpuproof.linter.source.python import parse
from gpuproof.linter.source.span import Unit


def read(*cells: str, **more: Any) -> list[Unit]:
    listed = [{"cell_type": "code", "source": cell} for cell in cells]
    return notebook.read("nb.ipynb", json.dumps({"cells": listed, "metadata": {}, **more}).encode())


@pytest.mark.parametrize(
    "cell",
    [
        "%pip install torch",
        "!ls -l",
        "files = !ls",
        "out = %sql select 1",
        "?print",
        "print?",
        "print??",
        "%%time\nx = 1",
        "%%bash\nif [ 1 ]; then fi",
        "%%html\n<b>",
        "!pip install a \\\n  b c",
        "if True:\n    !ls\n    %pip list",
        "await f()",
        "pip install torch==2.1",
        "conda install -y pytorch -c pytorch",
        "import os\ncd data\nx = 1",
        "pip install -q a \\\n  b",
        "load_ext autoreload",
        "config = {\n    'a': 1,\n}\nenv = [\n    1,\n]\nrun (\n)",
        "print(\n    'x %s'\n    % (1,)\n)\n%pip list",
        "assert (\n    a\n    != b\n)\n!ls",
        "    x = 1\n    y = 2",
        "    ! pip install a\n    ! ls",
        "%%time\n%%bash\nif [ 1 ]; then fi",
        "s = '(' # (\n%pip list",
        "%%capture out\nimport torch",
    ],
)
def test_ipython_syntax_is_not_an_error(cell: str) -> None:
    (unit,) = read(cell)
    tree, broken = parse(unit)
    assert broken == []
    assert tree is not None


def test_a_percent_line_within_a_text_stays_text() -> None:
    (unit,) = read('s = """\n%d apples\n"""')
    assert "%d apples" in unit.source


def test_python_below_time_is_read_and_bash_is_not() -> None:
    (unit,) = read("%%time\nimport torch", "%%bash\nimport nothing")
    assert "import torch" in unit.source
    assert "nothing" not in unit.source


def test_each_line_leads_back_to_its_cell() -> None:
    (unit,) = read("a = 1\nb = 2", "c = 3")
    assert [unit.file_position(line, 1) for line in (1, 2, 3)] == [(1, 1, 1), (1, 2, 1), (2, 1, 1)]


def test_cells_of_text_are_counted_as_ruff_does() -> None:
    cells = [
        {"cell_type": "markdown", "source": "# x"},
        {"cell_type": "code", "source": ["a = 1\n", "b = 2"]},
    ]
    (unit,) = notebook.read("nb.ipynb", json.dumps({"cells": cells}).encode())
    assert unit.file_position(2, 1) == (2, 2, 1)


def test_a_finding_in_an_indented_cell_has_the_column_of_the_notebook() -> None:
    (unit,) = read("    x = 1\n    y = 2")
    assert unit.source == "x = 1\ny = 2"
    assert unit.file_position(2, 1) == (1, 2, 5)


def test_a_misspelt_statement_is_no_magic() -> None:
    (unit,) = read("pip instal(", "imprt torch", "run = 1\nrun = 2")
    _, broken = parse(unit)
    assert [unit.file_position(item.span.line, 1)[0] for item in broken] == [2]
    assert "run = 2" in unit.source


def test_one_broken_cell_does_not_hide_the_others() -> None:
    (unit,) = read("x = (", "import torch", "def f(:")
    tree, broken = parse(unit)
    assert [unit.file_position(item.span.line, 1)[0] for item in broken] == [1, 3]
    assert tree is not None
    assert len(tree.body) == 1


def test_a_writefile_cell_is_a_file_of_its_own() -> None:
    unit, written = read("%%writefile src/train.py\nimport torch\nx = 1")
    assert (written.name, written.source, written.kind) == (
        "src/train.py",
        "import torch\nx = 1",
        "cell-file",
    )
    assert written.file_position(2, 1) == (1, 3, 1)
    assert "torch" not in unit.source


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"language": "R"}},
        # A custom image of SageMaker Studio.
        {"kernelspec": {"language": "python"}, "language_info": {"name": "R"}},
    ],
)
def test_a_notebook_of_another_language_holds_nothing(metadata: dict[str, Any]) -> None:
    (unit,) = read("x <- 1", metadata=metadata)
    assert unit.source == ""


def test_a_notebook_of_format_3_is_read() -> None:
    document = {"worksheets": [{"cells": [{"cell_type": "code", "input": "a = 1"}]}], "nbformat": 3}
    (unit,) = notebook.read("nb.ipynb", json.dumps(document).encode())
    assert unit.source == "a = 1"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b'{"cells": [', b"{}", b'{"cells": 1}', b"\xff\xfe", b"[" * 100_000]
)
def test_an_invalid_notebook_is_reported_once(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        notebook.read("nb.ipynb", raw)


@pytest.mark.parametrize(
    "cell", [None, 1, "x", {}, {"cell_type": "code"}, {"cell_type": "code", "source": None}]
)
def test_odd_cells_are_no_reason_to_fail(cell: Any) -> None:
    notebook.read("nb.ipynb", json.dumps({"cells": [cell], "metadata": []}).encode())
