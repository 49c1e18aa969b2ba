"""What is written to S3, over HTTP with real boto3."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.s3_transfer import PART
from support.faulty_aws import FakeResponse, FaultyAws, disconnect, xml_error
from support.s3_server import Bucket, MotoServer

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(moto_server: MotoServer, faulty: FaultyAws) -> Bucket:
    return moto_server.bucket()


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(PART * 2 + 12345))
    return path


def uploads(bucket: Bucket) -> list[object]:
    return bucket.client.list_multipart_uploads(Bucket=bucket.name).get("Uploads", [])


def test_what_was_put_can_be_read_and_removed(aws: Aws, bucket: Bucket) -> None:
    aws.put_object(bucket.name, "a/b c", b"content", tags={"gpuproof:keep": "30 days"})
    found = aws.object(bucket.name, "a/b c")
    assert found is not None
    assert found.size == 7
    assert aws.get_bytes(bucket.name, "a/b c") == b"content"
    tags = bucket.client.get_object_tagging(Bucket=bucket.name, Key="a/b c")["TagSet"]
    assert tags == [{"Key": "gpuproof:keep", "Value": "30 days"}]
    aws.delete_objects(bucket.name, ["a/b c", "never there"])
    assert aws.object(bucket.name, "a/b c") is None
    assert aws.get_bytes(bucket.name, "a/b c") is None


def test_more_objects_than_one_request_takes_are_removed(faulty: FaultyAws, aws: Aws, bucket: Bucket) -> None:
    aws.delete_objects(bucket.name, (str(number) for number in range(2001)))
    assert faulty.count("POST") == 3


def test_an_object_that_cannot_be_removed_is_named(faulty: FaultyAws, aws: Aws, bucket: Bucket) -> None:
    body = "<DeleteResult><Error><Key>kept</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    faulty.fault("POST", FakeResponse(200, body.encode(), {"Content-Type": "application/xml"}))
    with pytest.raises(AwsRefused, match=f"s3://{bucket.name}/kept: AccessDenied") as caught:
        aws.delete_objects(bucket.name, ["kept"])
    assert caught.value.is_permission


def test_a_large_file_goes_in_parts_and_comes_back_whole(aws: Aws, bucket: Bucket, big: Path) -> None:
    sent: list[int] = []
    aws.upload_file(bucket.name, "big", big, progress=sent.append)
    assert sum(sent) == big.stat().st_size
    with aws.open_object(bucket.name, "big") as stream:
        assert stream.read() == big.read_bytes()
    assert uploads(bucket) == []


def test_a_large_object_is_copied_with_its_own_tags(aws: Aws, bucket: Bucket, big: Path) -> None:
    aws.upload_file(bucket.name, "big", big)
    aws.copy_object(bucket.name, "big", "copy", tags={"gpuproof:keep": "30-days"})
    found = aws.object(bucket.name, "copy")
    assert found is not None
    assert found.size == big.stat().st_size


def test_a_small_object_is_copied_with_its_own_tags(aws: Aws, bucket: Bucket) -> None:
    aws.put_object(bucket.name, "small", b"1")
    aws.copy_object(bucket.name, "small", "copy", tags={"gpuproof:keep": "30-days"})
    tags = bucket.client.get_object_tagging(Bucket=bucket.name, Key="copy")["TagSet"]
    assert tags == [{"Key": "gpuproof:keep", "Value": "30-days"}]


def test_a_key_goes_along_with_every_write(faulty: FaultyAws, aws: Aws, bucket: Bucket, big: Path) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    aws.put_object(bucket.name, "a", b"1", kms_key=key)
    aws.upload_file(bucket.name, "b", big, kms_key=key)
    aws.copy_object(bucket.name, "a", "c", kms_key=key)
    for name in ("a", "b", "c"):
        assert bucket.client.head_object(Bucket=bucket.name, Key=name)["SSEKMSKeyId"] == key


def test_a_part_whose_connection_is_lost_goes_again(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, big: Path
) -> None:
    aws.put_object(bucket.name, "first", b"")  # S3 has answered
    faulty.fault("PUT", disconnect())
    sent: list[int] = []
    aws.upload_file(bucket.name, "big", big, progress=sent.append)
    assert sum(sent) == big.stat().st_size
    assert aws.get_bytes(bucket.name, "big") == big.read_bytes()
    assert uploads(bucket) == []


def test_an_unfinished_upload_is_removed_and_reported(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, big: Path
) -> None:
    faulty.fault("PUT", disconnect(), times=None)
    with pytest.raises(AwsUnreachable, match=rf"big to s3://{bucket.name}/big") as caught:
        aws.upload_file(bucket.name, "big", big)
    assert "network" in str(caught.value.remedy)
    assert uploads(bucket) == []
    assert aws.object(bucket.name, "big") is None


def test_a_refused_upload_leaves_nothing_and_names_its_code(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, big: Path
) -> None:
    faulty.fault("PUT", xml_error("AccessDenied", status=403), times=None)
    with pytest.raises(AwsRefused, match="AccessDenied") as caught:
        aws.upload_file(bucket.name, "big", big)
    assert caught.value.is_permission
    assert uploads(bucket) == []


def test_throttling_while_uploading_is_waited_out(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, big: Path, waited: list[float]
) -> None:
    faulty.fault("PUT", xml_error("SlowDown", status=503), times=2)
    aws.upload_file(bucket.name, "big", big)
    assert aws.get_bytes(bucket.name, "big") == big.read_bytes()
    assert waited


def test_an_interrupted_upload_leaves_no_parts(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from s3transfer.futures import TransferFuture

    original = TransferFuture.result
    calls: list[int] = []

    def interrupted_once(self: TransferFuture) -> object:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(TransferFuture, "result", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        aws.upload_file(bucket.name, "big", big)
    assert uploads(bucket) == []


def test_a_stream_goes_on_where_it_was_when_the_connection_breaks_off(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, waited: list[float]
) -> None:
    content = os.urandom(600_000)
    aws.put_object(bucket.name, "rows", content)
    etag = bucket.client.head_object(Bucket=bucket.name, Key="rows")["ETag"]
    half = {"Content-Length": str(len(content)), "ETag": etag}
    broken = FakeResponse(200, content[:250_000], half)
    faulty.fault("GET", broken)
    with aws.open_object(bucket.name, "rows") as stream:
        assert stream.read() == content
    assert len(waited) == 1
    assert faulty.requests[-1].headers["Range"] == "bytes=250000-"
    assert faulty.requests[-1].headers["If-Match"] == etag


def test_a_stream_of_what_is_not_there_is_refused_at_once(aws: Aws, bucket: Bucket) -> None:
    with pytest.raises(AwsRefused, match=f"s3://{bucket.name}/nothing: NoSuchKey"):
        aws.open_object(bucket.name, "nothing")


def test_where_a_bucket_is_and_that_there_is_none(
    faulty: FaultyAws, aws: Aws, bucket: Bucket, moto_server: MotoServer
) -> None:
    assert aws.bucket_region(bucket.name) == "us-east-1"
    assert aws.bucket_region("there-is-none-of-this-name") is None
    faulty.fault("HEAD", FakeResponse(403, b""))
    with pytest.raises(AwsRefused, match="403") as caught:
        aws.bucket_region(bucket.name)
    assert caught.value.is_permission
    assert "belongs to another account" in str(caught.value.remedy)
