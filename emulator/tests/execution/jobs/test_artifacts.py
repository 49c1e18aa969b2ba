"""The archives of a job's artifacts contain what its hosts saved, as the hosts saw it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from gpuproof_emulator.execution.jobs.artifacts import have_content, pack_artifacts


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """The `/opt/ml` of two hosts."""
    mls = [tmp_path / name for name in ("algo-1", "algo-2")]
    for ml in mls:
        (ml / "model").mkdir(parents=True)
    return mls


def packed(hosts: list[Path], folder: Path) -> dict[str, str]:
    """The members of the archive: the content of files, and where links lead."""
    pack_artifacts(hosts, "model", folder / "model.tar.gz")
    found: dict[str, str] = {}
    with tarfile.open(folder / "model.tar.gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            found[member.name] = f"-> {member.linkname}" if content is None else content.read().decode()
    return found


@pytest.mark.parametrize("count", [1, 2])
def test_links_with_absolute_paths_are_kept(hosts: list[Path], tmp_path: Path, count: int) -> None:
    first = hosts[0]
    (first / "model" / "weights-2").write_text("2")
    (first / "model" / "latest").symlink_to("/opt/ml/model/weights-2")
    (first / "checkpoints").mkdir()
    (first / "checkpoints" / "best").write_text("best")
    (first / "model" / "best").symlink_to("/opt/ml/checkpoints/best")
    assert packed(hosts[:count], tmp_path) == {"weights-2": "2", "latest": "-> weights-2", "best": "best"}


def test_files_of_all_hosts_are_kept_and_the_first_hosts_win(hosts: list[Path], tmp_path: Path) -> None:
    first, second = hosts
    (first / "model" / "both").write_text("1")
    (second / "model" / "both").write_text("2")
    (second / "model" / "own").write_text("2")
    assert packed(hosts, tmp_path) == {"both": "1", "own": "2"}
    assert [path.name for path in tmp_path.glob("*.tar.gz")] == ["model.tar.gz"]


def test_a_host_without_the_folder_is_left_out(hosts: list[Path], tmp_path: Path) -> None:
    first, second = hosts
    (first / "model").rmdir()
    (second / "model" / "own").write_text("2")
    assert packed(hosts, tmp_path) == {"own": "2"}
    assert have_content(hosts, "model")
    assert not have_content([first], "model")
    assert not have_content(hosts, "output/data")
