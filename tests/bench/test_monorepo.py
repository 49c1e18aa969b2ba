"""`bench/monorepo.py`: the generated repository is what it says, and is checked without an internal error."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gpuproof.linter.engine import check_paths

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="module")
def monorepo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_monorepo", BENCH / "monorepo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_hundred_projects_have_5000_scripts_300_notebooks_and_200_launchers(monorepo: ModuleType) -> None:
    files = [name for number in range(200) for name in monorepo._project(number)]
    assert sum(name.startswith("src/") and name.endswith(".py") for name in files) == 5000
    assert sum(name.endswith(".ipynb") for name in files) == 300
    assert files.count("launch.py") == 200


def test_its_jobs_are_linked_and_found_wanting(
    monorepo: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monorepo.build_monorepo(tmp_path / "repository", 3)
    monkeypatch.chdir(tmp_path)
    report = check_paths(["repository"])
    assert report.internal_errors == ()
    assert "DS101" in {hit.code for hit in report.hits}
    assert "SM123" not in {hit.code for hit in report.hits}
