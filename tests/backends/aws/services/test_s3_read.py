"""Reading from S3, over HTTP with real boto3."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable, NoCredentials, S3Object
from gpuproof.errors import ExitCode, GPUproofError, InvalidJob
from gpuproof.settings import boto3_session
from support.s3_server import Answer, Bucket, Reply, listing, refusal

pytestmark = pytest.mark.slow

Answering = Callable[[Answer], None]


def content_of(aws: Aws, item: S3Object, start: int = 0, length: int | None = None) -> bytes:
    pieces: dict[int, bytes] = {}
    aws.read_object(item, start, item.size - start if length is None else length, pieces.__setitem__)
    return b"".join(content for _, content in sorted(pieces.items()))


def refused(prefix: str = "data/") -> GPUproofError:
    with pytest.raises(GPUproofError) as caught:
        list(Aws().list_objects("rows", prefix))
    assert caught.value.remedy
    return caught.value


def test_all_pages_of_a_listing_are_read(bucket: Bucket) -> None:
    bucket.put(**{f"rows/{number:04}": b"" for number in range(1001)})
    bucket.put(other=b"x")
    found = list(Aws().list_objects(bucket.name, "rows/"))
    assert len(found) == 1001
    assert (found[0].key, found[-1].key) == ("rows/0000", "rows/1000")


def test_an_object_is_read_whole_or_in_part(bucket: Bucket) -> None:
    bucket.put(rows=bytes(range(256)) * 4)
    (item,) = Aws().list_objects(bucket.name, "")
    assert content_of(Aws(), item) == bytes(range(256)) * 4
    assert content_of(Aws(), item, 10, 5) == bytes(range(10, 15))


def test_keys_with_any_characters_come_through(bucket: Bucket) -> None:
    keys = ["a b", "a+b", "a%2Fb", "ünïcödé", "quo'te\"s", "<&>", "semi;colon"]
    bucket.put(**{key: key.encode() for key in keys})
    found = list(Aws().list_objects(bucket.name, ""))
    assert sorted(item.key for item in found) == sorted(keys)
    assert {item.key: content_of(Aws(), item).decode() for item in found} == {key: key for key in keys}


def test_a_missing_bucket_is_refused_with_its_code(bucket: Bucket) -> None:
    with pytest.raises(AwsRefused, match=r"s3://no-such-bucket/x: NoSuchBucket") as caught:
        list(Aws().list_objects("no-such-bucket", "x"))
    assert caught.value.exit_code == ExitCode.AWS_REFUSED
    assert "aws s3 ls" in str(caught.value.remedy)


def test_an_object_that_was_replaced_meanwhile_is_not_mixed_up(bucket: Bucket) -> None:
    bucket.put(rows=b"old")
    (item,) = Aws().list_objects(bucket.name, "")
    bucket.put(rows=b"new")
    with pytest.raises(AwsRefused, match="PreconditionFailed") as caught:
        content_of(Aws(), item)
    assert "replaced" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [
        ("ExpiredToken", 400, "aws sso login"),
        ("InvalidAccessKeyId", 403, "AWS_PROFILE"),
        ("SignatureDoesNotMatch", 403, "Sign in"),
        ("AccessDenied", 403, "s3:GetObject"),
        ("AuthorizationHeaderMalformed", 400, "AWS_REGION"),
        ("IllegalLocationConstraintException", 400, "AWS_REGION"),
        ("InvalidObjectState", 403, "restore"),
        ("RequestTimeTooSkewed", 403, "clock"),
        ("SomethingNew", 400, "error code"),
    ],
)
def test_a_refusal_keeps_its_code_and_has_a_remedy(
    answering: Answering, code: str, status: int, word: str
) -> None:
    answering(lambda *_: refusal(code, status))
    error = refused()
    assert f"s3://rows/data/: {code}: said the server (ListObjectsV2)." == error.message
    assert error.exit_code == ExitCode.AWS_REFUSED
    assert word in str(error.remedy)


def test_throttling_is_waited_out(answering: Answering) -> None:
    calls: list[str] = []

    def slow_down_first(key: str, *_: object) -> Reply:
        calls.append(key)
        return refusal("SlowDown", 503) if len(calls) == 1 else listing({"data/a": b"1"})

    answering(slow_down_first)
    assert [item.key for item in Aws().list_objects("rows", "data/")] == ["data/a"]
    assert len(calls) == 2


def test_throttling_without_end_is_refused_by_name(
    answering: Answering, aws_environment: pytest.MonkeyPatch
) -> None:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    calls: list[str] = []
    answering(lambda key, *_: calls.append(key) or refusal("SlowDown", 503))
    waited: list[float] = []
    with pytest.raises(AwsRefused, match="SlowDown") as caught:
        list(Aws(sleep=waited.append).list_objects("rows", "data/"))
    assert "AWS_MAX_ATTEMPTS" in str(caught.value.remedy)
    assert caught.value.is_throttle
    assert 120 <= sum(waited) < 145
    assert len(calls) == len(waited) + 1


def test_without_credentials_nothing_can_be_decided(
    aws_environment: pytest.MonkeyPatch, bucket: Bucket
) -> None:
    aws_environment.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(NoCredentials) as caught:
        list(Aws().list_objects(bucket.name, ""))
    assert caught.value.exit_code == ExitCode.UNDECIDED
    assert "aws sso login" in str(caught.value.remedy)


def test_a_profile_that_is_not_there_is_named(aws_environment: pytest.MonkeyPatch, bucket: Bucket) -> None:
    aws_environment.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(NoCredentials, match="nobody"):
        list(Aws().list_objects(bucket.name, ""))


def test_a_profiles_keys_and_endpoint_are_used(
    aws_environment: pytest.MonkeyPatch, bucket: Bucket, tmp_path: Path
) -> None:
    bucket.put(rows=b"1")
    config = tmp_path / "config"
    config.write_text(
        f"[profile work]\naws_access_key_id = a\naws_secret_access_key = b\nendpoint_url = {bucket.server.url}\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        aws_environment.delenv(name)
    aws_environment.setenv("AWS_CONFIG_FILE", str(config))
    aws_environment.setenv("AWS_PROFILE", "work")
    assert [item.key for item in Aws().list_objects(bucket.name, "")] == ["rows"]


def test_the_region_of_the_environment_goes_before_the_profiles(aws_environment: pytest.MonkeyPatch) -> None:
    aws_environment.setenv("AWS_REGION", "eu-central-1")
    assert boto3_session().region_name == "eu-central-1"
    aws_environment.delenv("AWS_REGION")
    assert boto3_session().region_name == "us-east-1"


def test_an_endpoint_that_does_not_answer_is_named(aws_environment: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(AwsUnreachable, match=f"127.0.0.1:{port}") as caught:
        list(Aws().list_objects("rows", ""))
    assert "AWS_ENDPOINT_URL" in str(caught.value.remedy)


def test_a_name_that_no_bucket_can_have_is_wrong_usage(aws_environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidJob, match="Invalid bucket name") as caught:
        list(Aws().list_objects("no bucket", ""))
    assert caught.value.exit_code == ExitCode.USAGE


def test_a_content_that_breaks_off_is_read_again(answering: Answering) -> None:
    content = bytes(range(256)) * 4096
    sends = iter([1000, 300_000, None])
    waited: list[float] = []
    answering(lambda *_: Reply(200, content, sends=next(sends)))
    item = S3Object("rows", "big", len(content), '"1"', 0.0)
    assert content_of(Aws(sleep=waited.append), item) == content
    assert waited == sorted(waited)
    assert len(waited) == 2


def test_a_content_that_always_breaks_off_is_given_up_with_words(answering: Answering) -> None:
    waited: list[float] = []
    answering(lambda *_: Reply(200, b"x" * 1000, sends=10))
    with pytest.raises(AwsUnreachable, match="s3://rows/big") as caught:
        content_of(Aws(sleep=waited.append), S3Object("rows", "big", 1000, '"1"', 0.0))
    assert len(waited) == 3
    assert caught.value.remedy


def test_a_server_that_knows_no_ranges_cannot_pass_for_the_part(answering: Answering) -> None:
    answering(lambda *_: Reply(200, b"x" * 1000))
    with pytest.raises(AwsUnreachable, match="requested 10 bytes, but received 1000"):
        content_of(Aws(), S3Object("rows", "big", 1000, '"1"', 0.0), 500, 10)


def test_a_bug_is_not_dressed_up_as_an_answer_of_awss(bucket: Bucket) -> None:
    bucket.put(rows=b"1")
    (item,) = Aws().list_objects(bucket.name, "")

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Aws().read_object(item, 0, 1, broken)
