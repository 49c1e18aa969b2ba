"""The archives of several hosts become one: of members with the same name, the first host's is kept."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from gpuproof.agent.artifacts.archive_create import ArtifactError, pack
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.agent.artifacts.archive_merge import merge_archives


def packed(folder: Path, host: str, **files: str) -> Path:
    source = folder / host
    for name, content in files.items():
        path = source / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    archive = folder / f"{host}.tar.gz"
    pack(source, archive)
    return archive


def content(archive: Path, folder: Path) -> dict[str, str]:
    unpack(archive, folder)
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_files_of_all_hosts_are_kept_and_the_first_hosts_win(tmp_path: Path) -> None:
    first = packed(tmp_path, "algo-1", weights="1", logs__a="1")
    second = packed(tmp_path, "algo-2", weights="2222", logs__b="2", deep__er__c="2")
    result = merge_archives([first, second], tmp_path / "merged.tar.gz")
    assert content(tmp_path / "merged.tar.gz", tmp_path / "out") == {
        "weights": "1",
        "logs/a": "1",
        "logs/b": "2",
        "deep/er/c": "2",
    }
    assert (result.files, result.bytes) == (4, 4)


def test_a_file_where_another_host_has_a_folder_is_left_out(tmp_path: Path) -> None:
    first = packed(tmp_path, "algo-1", a="file", b__inner="1")
    second = packed(tmp_path, "algo-2", a__inner="2", b="file")
    merge_archives([first, second], tmp_path / "merged.tar.gz")
    assert content(tmp_path / "merged.tar.gz", tmp_path / "out") == {"a": "file", "b/inner": "1"}


def test_a_hard_link_to_a_file_that_was_left_out_keeps_its_content(tmp_path: Path) -> None:
    first = packed(tmp_path, "algo-1", a="first")
    (tmp_path / "algo-2").mkdir()
    (tmp_path / "algo-2" / "a").write_text("second")
    os.link(tmp_path / "algo-2" / "a", tmp_path / "algo-2" / "b")
    second = packed(tmp_path, "algo-2")
    merge_archives([first, second], tmp_path / "merged.tar.gz")
    assert content(tmp_path / "merged.tar.gz", tmp_path / "out") == {"a": "first", "b": "second"}


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    first = packed(tmp_path, "algo-1", a="1" * 100_000)
    first.write_bytes(first.read_bytes()[:-40])
    with pytest.raises(ArtifactError, match=r"algo-1\.tar\.gz cannot be read"):
        merge_archives([first], tmp_path / "merged.tar.gz")
    assert not (tmp_path / "merged.tar.gz").exists()


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "algo-1").mkdir()
    (tmp_path / "algo-1" / "last").symlink_to("weights")
    merge_archives([packed(tmp_path, "algo-1", weights="1")], tmp_path / "merged.tar.gz")
    with tarfile.open(tmp_path / "merged.tar.gz") as tar:
        assert tar.getmember("last").linkname == "weights"
