"""What belongs to a folder that is uploaded: links, names, sizes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuproof.backends.remote.upload.input_folder import InputFolder, hash_folder
from gpuproof.errors import UsageError


def test_a_folder_is_known_by_its_names_and_contents_alone(data: Path) -> None:
    first = hash_folder(data)
    os.utime(data / "one", (1, 1))
    assert hash_folder(data).digest == first.digest
    (data / "one").rename(data / "uno")
    second = hash_folder(data)
    (data / "uno").write_bytes(b"other")
    assert len({first.digest, second.digest, hash_folder(data).digest}) == 3


def test_links_are_followed_and_circles_end(data: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"far")
    (data / "far").symlink_to(tmp_path / "elsewhere")
    (data / "a" / "back").symlink_to(data)
    folder = hash_folder(data)
    assert folder.files["far"].size == 3
    assert not any(name.startswith("a/back") for name in folder.files)


def test_a_link_to_a_folder_around_the_input_brings_nothing_along(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("x")
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.csv").write_text("1")
    (folder / "up").symlink_to("..")
    assert list(hash_folder(folder).files) == ["a.csv"]


def test_a_link_to_nothing_is_named(data: Path) -> None:
    (data / "lost").symlink_to(data / "nothing")
    with pytest.raises(UsageError, match="lost is a broken link"):
        hash_folder(data)


def test_an_empty_folder_is_not_an_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no files"):
        hash_folder(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        hash_folder(tmp_path / "nothing")


def test_names_that_s3_does_not_take_are_named(data: Path) -> None:
    (data / os.fsdecode(b"caf\xe9")).write_bytes(b"x")
    with pytest.raises(UsageError, match="not UTF-8"):
        hash_folder(data)


def test_a_name_that_is_too_long_is_named(tmp_path: Path) -> None:
    deep = tmp_path / Path(*["x" * 200] * 5)
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x")
    with pytest.raises(UsageError, match="bytes; S3 allows"):
        hash_folder(tmp_path)


def test_a_folder_knows_its_size(data: Path) -> None:
    folder: InputFolder = hash_folder(data)
    assert folder.total_bytes == 4000
    assert list(folder.files) == sorted(folder.files)
