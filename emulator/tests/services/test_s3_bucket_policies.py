"""A bucket whose policy requires TLS can be used, and its original policy is returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpuproof_emulator.services.s3_bucket_policies import applies_only_without_tls
from support.aws_emulator import running_emulator
from support.emulator_jobs import Account

INSECURE = {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.slow
def test_a_bucket_that_denies_requests_without_tls_can_be_used(aws: Account) -> None:
    policy = _policy(aws.bucket, _deny("s3:*", INSECURE))
    aws.client("s3").put_bucket_policy(Bucket=aws.bucket, Policy=policy)
    aws.put("a.txt", "hello")
    assert aws.get("a.txt") == "hello"
    assert aws.keys() == ["a.txt"]
    assert aws.client("s3").get_bucket_policy(Bucket=aws.bucket)["Policy"] == policy


@pytest.mark.slow
def test_a_statement_beside_it_is_heeded(aws: Account) -> None:
    policy = _policy(aws.bucket, _deny("s3:*", INSECURE), _deny("s3:PutObject", None))
    aws.client("s3").put_bucket_policy(Bucket=aws.bucket, Policy=policy)
    with pytest.raises(ClientError, match="403"):
        aws.put("a.txt", "hello")


@pytest.mark.slow
def test_the_policy_can_be_taken_away(aws: Account) -> None:
    s3 = aws.client("s3")
    s3.put_bucket_policy(Bucket=aws.bucket, Policy=_policy(aws.bucket, _deny("s3:*", INSECURE)))
    s3.delete_bucket_policy(Bucket=aws.bucket)
    with pytest.raises(ClientError, match="NoSuchBucketPolicy"):
        s3.get_bucket_policy(Bucket=aws.bucket)


@pytest.mark.slow
def test_the_policy_is_the_same_after_a_restart(tmp_path: Path) -> None:
    policy = _policy("kept", _deny("s3:*", INSECURE))
    with running_emulator(tmp_path) as emulator:
        emulator.bucket("kept")
        emulator.client("s3").put_bucket_policy(Bucket="kept", Policy=policy)
    with running_emulator(tmp_path) as emulator:
        aws = Account(emulator, "kept", "kept")
        assert aws.client("s3").get_bucket_policy(Bucket="kept")["Policy"] == policy
        aws.put("a.txt", "hello")
        assert aws.get("a.txt") == "hello"


@pytest.mark.parametrize(
    "condition",
    [
        INSECURE,
        {"Bool": {"aws:securetransport": ["false"]}},
        {"BoolIfExists": {"aws:SecureTransport": False}},
        {"Bool": {"aws:SecureTransport": "false"}, "StringEquals": {"aws:PrincipalTag/a": "b"}},
    ],
)
def test_statements_that_need_a_request_without_tls_never_hold(condition: dict[str, Any]) -> None:
    assert applies_only_without_tls({"Effect": "Deny", "Condition": condition})


@pytest.mark.parametrize(
    "condition",
    [
        None,
        {"Bool": {"aws:SecureTransport": "true"}},
        {"Bool": {"aws:SecureTransport": ["true", "false"]}},
        {"StringEquals": {"aws:SecureTransport": "false"}},
        {"Bool": {"aws:ViaAWSService": "false"}},
        {"Bool": "false"},
    ],
)
def test_other_statements_may_hold(condition: object) -> None:
    assert not applies_only_without_tls({"Effect": "Deny", "Condition": condition})


def _deny(action: str, condition: dict[str, Any] | None) -> dict[str, Any]:
    statement = {"Effect": "Deny", "Principal": "*", "Action": action}
    return statement if condition is None else {**statement, "Condition": condition}


def _policy(bucket: str, *statements: dict[str, Any]) -> str:
    resources = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{**statement, "Resource": resources} for statement in statements],
        }
    )
