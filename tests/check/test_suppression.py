"""Comments and settings that silence findings."""

from pathlib import Path

import pytest

from gpuproof.check.config import read_settings
from gpuproof.check.engine import CheckOptions, check_paths
from gpuproof.check.registry import Selection, select_rules
from gpuproof.errors import UsageError
from support.check_helpers import check_here, write_files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes(comment: str = "", line: str = "") -> list[str]:
    """What is found of a broken file with a comment on its line, and another line before."""
    Path("a.py").write_text(f"{line}\nx = ({comment}\n")
    return [hit.code for hit in check_here("a.py").hits]


@pytest.mark.parametrize(
    "comment",
    [
        "  # noqa",
        "  # noqa: E901",
        "  # noqa:E901",
        "  # noqa: F401, E901",
        "  # NOQA: E9",
        "  # gpuproof: ignore[E901]",
        "  # gpuproof: ignore[syntax-error]",
        "  # gpuproof: ignore",
    ],
)
def test_a_comment_on_the_line_silences(comment: str) -> None:
    assert codes(comment) == []


@pytest.mark.parametrize(
    "comment", ["", "  # noqa: F401", "  # gpuproof: ignore[PT101]", "  # noqally", "  # gpuproof: ignored"]
)
def test_other_comments_do_not(comment: str) -> None:
    assert codes(comment) == ["E901"]


def test_a_comment_for_the_file_silences_it() -> None:
    assert codes(line="# gpuproof: ignore-file[E901]") == []
    assert codes(line="# gpuproof: ignore-file[PT101]") == ["E901"]


def test_a_call_over_several_lines_is_silenced_at_its_end_too(here: Path) -> None:
    text = """
    from sagemaker.pytorch import PyTorchModel
    PyTorchModel(entry_point="i.py").deploy(
        initial_instance_count=1,
        instance_type=(
            "ml.t3.medium"
        ),
    )
    """
    write_files(here, {"a.py": text})
    assert [hit.code for hit in check_here("a.py", select=("IN103",)).hits] == ["IN103"]
    write_files(here, {"a.py": text.replace('"ml.t3.medium"', '"ml.t3.medium"  # noqa: IN103')})
    assert check_here("a.py", select=("IN103",)).hits == ()


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
    ("table", "said"),
    [
        ('selct = ["E901"]', "did you mean 'select'"),
        ("select = 1", "list of strings"),
        ("sagemaker-sdk = 4", "2 or 3"),
        ("per-file-ignores = 1", "table"),
        ("markdown = 1", "true or false"),
        ("select = [", "not valid TOML"),
    ],
)
def test_wrong_settings_are_wrong_usage(here: Path, table: str, said: str) -> None:
    write_files(here, {"pyproject.toml": f"[tool.gpuproof.check]\n{table}\n"})
    with pytest.raises(UsageError, match=said):
        read_settings(here)


def test_another_tools_broken_pyproject_is_not_ours(here: Path) -> None:
    write_files(here, {"pyproject.toml": "[tool.other\n"})
    assert read_settings(here).path is None


def test_strict_rules_are_off_unless_selected() -> None:
    on = {rule.code for rule in select_rules(Selection())}
    strict = {rule.code for rule in select_rules(Selection(select=("ALL",))) if rule.when == "strict"}
    assert "E901" in on
    assert not on & strict
    assert strict <= {rule.code for rule in select_rules(Selection(extend=tuple(strict)))}


@pytest.mark.parametrize(
    ("selection", "on"),
    [
        (Selection(select=("E901",)), True),
        (Selection(select=("E",)), True),
        (Selection(select=("syntax-error",)), True),
        (Selection(select=("DS",)), False),
        (Selection(ignore=("E9",)), False),
        (Selection(select=("E901",), ignore=("E",)), True),
        (Selection(select=("E",), ignore=("E901",)), False),
        (Selection(select=("DS",), extend=("E901",)), True),
    ],
)
def test_the_closer_word_wins(selection: Selection, on: bool) -> None:
    assert ("E901" in {rule.code for rule in select_rules(selection)}) is on


def test_a_code_that_means_nothing_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="E9001"):
        select_rules(Selection(select=("E9001",)))
