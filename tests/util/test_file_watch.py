"""Waiting until something changes in a folder."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.util import file_watch as room
from gpuproof.util.file_watch import FileWatch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")

LONG = 30.0


def waited(changes: FileWatch, seconds: float = LONG) -> float:
    """How long a wait took."""
    began = time.monotonic()
    changes.wait(seconds)
    return time.monotonic() - began


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("x")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "new").touch(),
        lambda folder: append(folder / "there"),
        lambda folder: (folder / "beside").replace(folder / "there"),
        lambda folder: (folder / "new").mkdir(),
        lambda folder: folder.rename(folder.with_name("moved")),
        shutil.rmtree,
    ],
    ids=["made", "written", "replaced", "folder made", "moved away", "removed"],
)
def test_a_change_ends_the_wait(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "there").touch()
    (folder / "beside").touch()
    with FileWatch([folder]) as changes:
        change(folder)
        assert waited(changes) < LONG / 2


def test_a_change_while_waiting_ends_the_wait(tmp_path: Path) -> None:
    with FileWatch([tmp_path]) as changes:
        timer = threading.Timer(0.1, (tmp_path / "new").touch)
        timer.start()
        assert waited(changes) < LONG / 2
        timer.join()


def test_any_of_several_folders_ends_the_wait(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    with FileWatch([one, two]) as changes:
        (two / "new").touch()
        assert waited(changes) < LONG / 2


def test_a_file_that_is_closed_by_a_dying_process_ends_the_wait(tmp_path: Path) -> None:
    lock = (tmp_path / "lock").open("w")
    with FileWatch([tmp_path]) as changes:
        lock.close()
        assert waited(changes) < LONG / 2


def test_without_a_change_the_wait_ends_in_its_time(tmp_path: Path) -> None:
    with FileWatch([tmp_path]) as changes:
        assert 0.1 <= waited(changes, 0.1) < LONG / 2


def test_looking_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    with FileWatch([tmp_path]) as changes:
        (tmp_path / "there").read_text()
        assert waited(changes, 0.05) >= 0.05


def test_one_change_ends_one_wait(tmp_path: Path) -> None:
    with FileWatch([tmp_path]) as changes:
        (tmp_path / "new").mkdir()
        changes.wait(LONG)
        assert waited(changes, 0.05) >= 0.05


def test_a_folder_that_is_not_there_is_looked_at_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FileWatch([tmp_path / "gone"]) as changes:
        assert waited(changes) < LONG / 2
        monkeypatch.setattr(room, "_POLL_SECONDS", LONG)
        assert waited(changes, 0.05) < LONG / 2


def test_a_name_that_is_not_utf8_is_watched(tmp_path: Path) -> None:
    folder = Path(str(tmp_path / "odd\udcff"))
    folder.mkdir()
    with FileWatch([folder]) as changes:
        (folder / "new").touch()
        assert waited(changes) < LONG / 2


def test_nothing_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with FileWatch([tmp_path]), FileWatch([tmp_path / "gone"]):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
