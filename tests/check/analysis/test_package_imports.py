"""Imports of a package's own modules by its name."""

from pathlib import Path

from gpuproof.linter.project import Project
from gpuproof.linter.source.span import Unit


def test_a_module_of_a_package_imports_another_by_the_name_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "forecaster"
    package.mkdir()
    texts = {"__init__.py": "", "lstm.py": "class Net: ...\n", "run.py": "from forecaster.lstm import Net\n"}
    for name, text in texts.items():
        (package / name).write_text(text)
    unit = Unit(str(package / "run.py"), texts["run.py"], "python")
    workspace = Project([unit]).workspace
    module = workspace.module(unit)
    assert module is not None
    found = workspace.imported_unit(module, "forecaster.lstm")
    assert found is not None
    assert found.absolute == package / "lstm.py"
