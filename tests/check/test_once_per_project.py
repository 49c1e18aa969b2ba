"""Findings about a whole project are reported once, wherever the check starts."""

from pathlib import Path

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCHER = "from sagemaker.pytorch import PyTorch\n"
FILES = {f"jobs/launch_{number}.py": LAUNCHER for number in range(4)}


def notes(*paths: Path) -> list[tuple[str, str]]:
    report = check_paths([str(path) for path in paths], CheckOptions(Selection(select=("SDK201",))))
    return [(hit.span.unit.absolute.name, hit.finding.message) for hit in report.hits]


def test_an_sdk_that_is_not_pinned_is_one_note(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    [(name, message)] = notes(tmp_path)
    assert name == "launch_0.py"
    assert message.endswith("3 more files have the same problem.")


def test_each_project_has_its_own_note(tmp_path: Path) -> None:
    write_files(tmp_path, {f"{name}/launch.py": LAUNCHER for name in ("a", "b")})
    write_files(tmp_path, {f"{name}/.git/HEAD": "" for name in ("a", "b")})
    assert len(notes(tmp_path)) == 2


def test_the_notes_are_the_same_from_every_folder_above(tmp_path: Path) -> None:
    for project in ("one", "two"):
        write_files(
            tmp_path / "work" / project,
            {"launch.py": LAUNCHER, "jobs/launch.py": LAUNCHER, "jobs/nightly/launch.py": LAUNCHER},
        )
    own = [*notes(tmp_path / "work" / "one"), *notes(tmp_path / "work" / "two")]
    assert len(own) == 2
    assert notes(tmp_path / "work") == notes(tmp_path) == own


def test_a_removed_name_with_a_pinned_sdk_is_reported_wherever_it_is(tmp_path: Path) -> None:
    write_files(tmp_path, {**FILES, "jobs/requirements.txt": "sagemaker>=3\n"})
    assert len(notes(tmp_path)) == 4
