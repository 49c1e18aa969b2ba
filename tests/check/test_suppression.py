"""Comments that suppress findings."""

from pathlib import Path

import pytest

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
