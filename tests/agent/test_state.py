from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.agent.state import RunState, read_state
from gpuproof.util.atomic import write_json


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    with pytest.raises(OSError, match="No space left"), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def test_a_change_keeps_what_was_known(tmp_path: Path) -> None:
    state = RunState(tmp_path / "run.json")
    state.update(status="InProgress", id="a")
    state.update(status="Completed")
    assert read_state(tmp_path / "run.json") == {"version": 1, "id": "a", "status": "Completed"}


def test_what_the_ground_half_wrote_is_kept(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"version": 1, "id": "a", "created": 5})
    RunState(tmp_path / "run.json").update(status="InProgress")
    assert read_state(tmp_path / "run.json") == {
        "version": 1,
        "id": "a",
        "created": 5,
        "status": "InProgress",
    }


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "run.json", {"a": object()})
    assert os.listdir(tmp_path) == ["run.json"]
    assert read_state(tmp_path / "run.json") == {"a": 1}


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\udce9"])
def test_a_broken_file_counts_as_no_state(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert read_state(tmp_path / "run.json") is None


def test_a_full_disk_still_takes_the_words_that_say_so(small_disk: Path) -> None:
    state = RunState(small_disk / "run.json")
    state.update(status="InProgress")
    fill(small_disk)
    state.update(status="Failed", failure_reason="x" * 10_000)
    assert json.loads((small_disk / "run.json").read_text())["status"] == "Failed"


def test_without_the_reserve_a_full_disk_takes_nothing(small_disk: Path) -> None:
    state = RunState(small_disk / "run.json")
    state.update(status="InProgress")
    state.release_reserve()
    fill(small_disk)
    with pytest.raises(OSError, match="No space left") as caught:
        state.update(status="Failed", failure_reason="x" * 10_000)
    assert caught.value.errno == errno.ENOSPC
    assert json.loads((small_disk / "run.json").read_text())["status"] == "InProgress"
