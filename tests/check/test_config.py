"""Settings in `[tool.gpuproof.check]`."""

from pathlib import Path

import pytest

from gpuproof.errors import UsageError
from gpuproof.linter.config import read_settings
from gpuproof.linter.engine import CheckOptions, check_paths
from support.check_helpers import write_files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_settings_are_those_of_the_nearest_pyproject(here: Path) -> None:
    write_files(
        here,
        {"pyproject.toml": '[tool.gpuproof.check]\nignore = ["E901"]\n', "sub/pyproject.toml": "[project]\n"},
    )
    assert read_settings(here / "sub").ignore == ("E901",)


def test_per_file_ignores(here: Path) -> None:
    write_files(
        here,
        {
            "pyproject.toml": '[tool.gpuproof.check.per-file-ignores]\n"old/*" = ["E901"]\n',
            "old/a.py": "x = (",
            "new/a.py": "x = (",
        },
    )
    report = check_paths(["."], CheckOptions(settings=read_settings(here)))
    assert [hit.span.unit.path for hit in report.hits] == ["new/a.py"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('selct = ["E901"]', "did you mean 'select'"),
        ("select = 1", "list of strings"),
        ("sagemaker-sdk = 4", "2 or 3"),
        ("per-file-ignores = 1", "table"),
        ("markdown = 1", "true or false"),
        ("select = [", "not valid TOML"),
    ],
)
def test_wrong_settings_are_wrong_usage(here: Path, table: str, expected: str) -> None:
    write_files(here, {"pyproject.toml": f"[tool.gpuproof.check]\n{table}\n"})
    with pytest.raises(UsageError, match=expected):
        read_settings(here)


def test_another_tools_broken_pyproject_is_not_ours(here: Path) -> None:
    write_files(here, {"pyproject.toml": "[tool.other\n"})
    assert read_settings(here).path is None
