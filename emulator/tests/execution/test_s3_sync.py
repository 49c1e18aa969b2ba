"""Locations in S3, and which keys a host downloads."""

from __future__ import annotations

from gpuproof_emulator.execution.s3_sync import S3Location, shard


def test_hosts_share_keys_by_turns() -> None:
    keys = {key: key for key in "dbac"}
    assert [sorted(shard(keys, host, 2)) for host in range(2)] == [["a", "c"], ["b", "d"]]


def test_places_in_s3_are_joined_without_double_slashes() -> None:
    assert str(S3Location.parse("s3://b/out/").below("job", "output")) == "s3://b/out/job/output"
    assert str(S3Location.parse("s3://b").below("job")) == "s3://b/job"
