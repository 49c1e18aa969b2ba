"""Files that are replaced atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuproof.util.atomic import replacing, write_bytes, write_json


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
