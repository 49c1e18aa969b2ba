"""Files that are replaced atomically."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.util.atomic import replacing, replacing_file, write_bytes, write_json


@pytest.mark.parametrize("sync", [False, True])
def test_the_file_is_replaced_and_nothing_else_stays(tmp_path: Path, sync: bool) -> None:
    (tmp_path / "a").write_text("old")
    write_bytes(tmp_path / "a", b"new", sync=sync)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "new"}


def test_the_old_content_is_there_until_the_block_ends(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with replacing(tmp_path / "a") as partial:
        partial.write_text("new")
        assert (tmp_path / "a").read_text() == "old"
    assert (tmp_path / "a").read_text() == "new"


def test_an_exception_leaves_the_old_file_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a") as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_two_writers_of_one_file_use_two_temporary_files(tmp_path: Path) -> None:
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert os.listdir(tmp_path) == ["a"]


def test_a_long_name_still_has_room_for_the_temporary_one(tmp_path: Path) -> None:
    write_bytes(tmp_path / ("x" * 255), b"")
    assert [len(name) for name in os.listdir(tmp_path)] == [255]


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"a": object()})
    assert json.loads((tmp_path / "a.json").read_text()) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("has_unnamed_files", [True, False])
@pytest.mark.parametrize("sync", [False, True])
def test_a_large_file_is_replaced_when_the_block_ends(
    tmp_path: Path, sync: bool, has_unnamed_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_unnamed_files:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    for content in (b"first", b"second"):
        with replacing_file(tmp_path / "a", sync=sync) as file:
            file.write(content)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": content}
    with pytest.raises(ZeroDivisionError), replacing_file(tmp_path / "a", sync=sync) as file:
        file.write(b"third")
        raise ZeroDivisionError
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"second"}


def test_a_process_that_is_killed_leaves_no_temporary_file(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except (AttributeError, OSError):
        pytest.skip("the file system has no files without a name")
    program = (
        "import os, signal, sys; from pathlib import Path; from gpuproof.util.atomic import replacing_file\n"
        "with replacing_file(Path(sys.argv[1])) as file:\n    file.write(b'x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "model.tar.gz")])
    assert ended.returncode == -9
    assert list(tmp_path.iterdir()) == []
