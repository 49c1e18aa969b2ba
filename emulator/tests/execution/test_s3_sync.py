"""Locations in S3, which keys a host downloads, and files that change while they are uploaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.s3_sync import FolderMirror, S3Location, UploadFailed, shard
from support.emulator_jobs import Account


def test_hosts_share_keys_by_turns() -> None:
    keys = {key: key for key in "dbac"}
    assert [sorted(shard(keys, host, 2)) for host in range(2)] == [["a", "c"], ["b", "d"]]


def test_places_in_s3_are_joined_without_double_slashes() -> None:
    assert str(S3Location.parse("s3://b/out/").below("job", "output")) == "s3://b/out/job/output"
    assert str(S3Location.parse("s3://b").below("job")) == "s3://b/job"


@pytest.mark.slow
def test_a_file_that_is_written_during_its_upload_is_uploaded_by_the_next_sync(
    aws: Account, tmp_path: Path
) -> None:
    file = tmp_path / "model.h5"
    file.write_text("half")
    s3 = aws.client("s3")
    mirror = FolderMirror(s3, tmp_path, S3Location(aws.bucket, "checkpoints"))

    def write(**_: Any) -> None:
        file.write_text("the whole")

    # The request is signed for what the file had before.
    s3.meta.events.register("before-send.s3.PutObject", write)
    mirror.upload_changes()
    assert aws.keys("checkpoints") == []
    s3.meta.events.unregister("before-send.s3.PutObject", write)
    mirror.upload_changes()
    assert aws.get("checkpoints/model.h5") == "the whole"


@pytest.mark.slow
def test_an_upload_that_s3_rejects_fails(aws: Account, tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_text("x")
    mirror = FolderMirror(aws.client("s3"), tmp_path, S3Location("no-such-bucket-here", "checkpoints"))
    with pytest.raises(UploadFailed, match="NoSuchBucket"):
        mirror.upload_changes()
