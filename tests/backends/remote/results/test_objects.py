"""What a job leaves on S3, and bringing it here: whole files or none."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.results import objects
from gpuproof.backends.remote.results.objects import (
    Downloads,
    Results,
    find_artifacts,
    translated_file_errors,
)
from gpuproof.backends.s3_inputs.mapping import S3Prefix
from gpuproof.errors import GPUproofError, InvalidJob
from support.archives import archive


def prefix(bucket: Any, key: str) -> S3Prefix:
    return S3Prefix(bucket.name, key)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_artifacts_are_listed_with_address_and_size_the_model_first(bucket: Any) -> None:
    bucket.put(**{"o/job/output/output.tar.gz": b"12"})
    bucket.put(**{"o/job/output/model.tar.gz": b"123"})
    bucket.put(**{"o/job/output/data/a": b"1"})
    bucket.put(**{"o/job/output/data/b": b"1"})
    found = find_artifacts(Aws(), Results(S3Prefix(bucket.name, "o/job/output/")))
    assert [(match.name, match.files, match.bytes) for match in found] == [
        ("model.tar.gz", None, 3),
        ("data", 2, 2),
        ("output.tar.gz", None, 2),
    ]
    assert found[0].location == f"s3://{bucket.name}/o/job/output/model.tar.gz"


class TestArchives:
    def test_they_are_copied_as_they_are(self, bucket: Any, tmp_path: Path) -> None:
        content = archive(w=b"1")
        bucket.put(**{"o/model.tar.gz": content})
        updates: list[tuple[str, int, int]] = []
        downloads = Downloads(Aws(), lambda *progress: updates.append(progress))
        made = list(downloads.archives(prefix(bucket, "o/"), tmp_path / "deep" / "out"))
        assert made == [tmp_path / "deep" / "out" / "model.tar.gz"]
        assert made[0].read_bytes() == content
        assert updates[-1] == ("model.tar.gz", len(content), len(content))

    def test_unpacked_they_are_folders_and_the_archive_is_gone(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"o/model.tar.gz": archive(**{"deep/w": b"1"})})
        assert list(Downloads(Aws()).archives(prefix(bucket, "o/"), tmp_path, extract=True)) == [
            tmp_path / "model"
        ]
        assert everything(tmp_path) == ["model/deep/w"]

    @pytest.mark.parametrize("member", ["../escaped", "/etc/escaped", "a/../../escaped"])
    def test_one_that_leads_out_is_refused_and_nothing_is_written(
        self, bucket: Any, tmp_path: Path, member: str
    ) -> None:
        bucket.put(**{"o/model.tar.gz": archive(**{"fine": b"1", member: b"2"})})
        with pytest.raises(ArtifactError, match="leads out of the folder"):
            list(Downloads(Aws()).archives(prefix(bucket, "o/"), tmp_path / "out", extract=True))
        assert everything(tmp_path) == []

    def test_a_model_without_compression_is_a_folder(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"o/model/1/saved_model.pb": b"1"})
        bucket.put(**{"o/model/1/variables/v": b"2"})
        list(Downloads(Aws()).archives(prefix(bucket, "o/"), tmp_path))
        assert everything(tmp_path) == ["model/1/saved_model.pb", "model/1/variables/v"]

    def test_an_interrupt_leaves_no_half_file(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"o/model.tar.gz": random.Random(1).randbytes(3_000_000)})

        def interrupt(name: str, done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(Downloads(Aws(), interrupt).archives(prefix(bucket, "o/"), tmp_path))
        assert everything(tmp_path) == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
    def test_a_full_disk_is_reported_before_anything_is_downloaded(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"o/model.tar.gz": random.Random(1).randbytes(2_000_000)})
        disk = tmp_path / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
        updates: list[Any] = []
        try:
            with (
                pytest.raises(GPUproofError, match="No space left on device") as caught,
                translated_file_errors(disk, "s3://b/o/"),
            ):
                list(Downloads(Aws(), lambda *one: updates.append(one)).archives(prefix(bucket, "o/"), disk))
            assert list(disk.iterdir()) == []
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
        assert updates == []
        assert "the results are kept at s3://b/o/" in str(caught.value.remedy)


class TestTrees:
    def test_everything_below_the_prefix_comes(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"rows/a.csv": b"1"})
        bucket.put(**{"rows/deep/b.csv": b"22"})
        updates: list[tuple[str, int, int]] = []
        downloads = Downloads(Aws(), lambda *progress: updates.append(progress))
        assert downloads.tree(prefix(bucket, "rows/"), tmp_path / "out", "rows") == tmp_path / "out"
        assert everything(tmp_path / "out") == ["a.csv", "deep/b.csv"]
        assert updates[-1] == ("rows", 3, 3)

    def test_what_is_there_already_is_replaced_and_the_rest_stays(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"rows/a.csv": b"new"})
        (tmp_path / "a.csv").write_text("old")
        (tmp_path / "mine").write_text("mine")
        Downloads(Aws()).tree(prefix(bucket, "rows/"), tmp_path, "rows")
        assert ((tmp_path / "a.csv").read_text(), (tmp_path / "mine").read_text()) == ("new", "mine")

    def test_nothing_there_makes_nothing(self, bucket: Any, tmp_path: Path) -> None:
        assert Downloads(Aws()).tree(prefix(bucket, "rows/"), tmp_path / "out", "rows") is None
        assert not (tmp_path / "out").exists()

    def test_a_key_that_leads_out_is_refused(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put_weird("rows/../../escaped", b"1")
        with pytest.raises(InvalidJob, match="outside of the channel"):
            Downloads(Aws()).tree(prefix(bucket, "rows/"), tmp_path / "out", "rows")
        assert everything(tmp_path) == []

    def test_a_link_on_the_way_is_not_followed(self, bucket: Any, tmp_path: Path) -> None:
        bucket.put(**{"rows/deep/a": b"1"})
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "deep").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(InvalidJob, match="is a symbolic link"):
            Downloads(Aws()).tree(prefix(bucket, "rows/"), tmp_path / "out", "rows")
        assert everything(tmp_path / "elsewhere") == []


def test_leftovers_of_killed_downloads_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    leftover = tmp_path / f".model.tar.gz.{ended.pid}.part"
    in_use = tmp_path / f".model.tar.gz.{os.getpid()}.part"
    other = tmp_path / ".model.tar.gz.notes.part"
    for path in (leftover, in_use, other):
        path.touch()
    objects._remove_leftovers(tmp_path / "model.tar.gz")
    assert sorted(tmp_path.iterdir()) == sorted([in_use, other])
