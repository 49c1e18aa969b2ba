"""Only signed requests of programs are served: no other user of the machine, no web page."""

from __future__ import annotations

import datetime
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from unittest import mock

import boto3
import botocore.auth
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support.aws_emulator import REGION
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

_JSON = {"X-Amz-Target": "SageMaker.ListModels", "Content-Type": "application/x-amz-json-1.1"}


def code_of(client: Any, operation: str, **request: Any) -> str:
    """Code of the error with which a call is rejected."""
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)(**request)
    return caught.value.response["Error"]["Code"]


def client(aws: Account, service: str, key: str, secret: str, token: str | None = None, **config: Any) -> Any:
    session = boto3.Session(key, secret, token, region_name=REGION)
    return session.client(service, endpoint_url=aws.emulator.url, config=Config(**config))


def status_of(url: str, headers: Mapping[str, str], body: bytes | None = None) -> int:
    """Status of a response to a request without a signature."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, dict(headers)), timeout=120
        ) as response:
            return response.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize(
    ("service", "operation", "unknown", "mismatch"),
    [
        ("sagemaker", "list_models", "UnrecognizedClientException", "InvalidSignatureException"),
        ("logs", "describe_log_groups", "UnrecognizedClientException", "InvalidSignatureException"),
        ("iam", "list_roles", "InvalidClientTokenId", "SignatureDoesNotMatch"),
        ("s3", "list_buckets", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
        ("ec2", "describe_vpcs", "AuthFailure", "AuthFailure"),
    ],
)
def test_other_credentials_are_rejected(
    aws: Account, service: str, operation: str, unknown: str, mismatch: str
) -> None:
    assert code_of(client(aws, service, "AKIAIOSFODNN7EXAMPLE", "secret"), operation) == unknown
    assert code_of(client(aws, service, "emulator", "emulator"), operation) == mismatch


def test_an_endpoint_is_not_invoked_with_other_credentials(aws: Account) -> None:
    runtime = client(aws, "sagemaker-runtime", "emulator", "emulator")
    assert code_of(runtime, "invoke_endpoint", EndpointName="e", Body=b"") == "InvalidSignatureException"


@pytest.mark.parametrize("path", ["/", "/data", "/data/key", "/moto-api/reset", "/endpoints/e/invocations"])
def test_a_request_without_a_signature_is_rejected(aws: Account, path: str) -> None:
    assert status_of(f"{aws.emulator.url}{path}", {}) == 403
    assert status_of(f"{aws.emulator.url}{path}", {}, b"body") == 403


def test_an_operation_without_a_signature_names_the_reason(aws: Account) -> None:
    request = urllib.request.Request(aws.emulator.url, b"{}", _JSON)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=120)
    document = json.loads(caught.value.read())
    caught.value.close()
    assert document["__type"] == "MissingAuthenticationTokenException"
    assert "the token that it prints" in document["message"]


def test_a_changed_body_is_rejected(aws: Account) -> None:
    for headers in ({}, {"X-Amz-Content-SHA256": "0" * 64}):
        with pytest.raises(urllib.error.HTTPError) as caught:
            aws.emulator.open("POST", "/", b"{}", headers, sent=b'{"MaxResults": 1}')
        caught.value.close()
        assert caught.value.code in (400, 403)


def test_an_old_request_is_rejected(aws: Account) -> None:
    old = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=20)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=old):
        assert code_of(aws.client("sagemaker"), "list_models") == "InvalidSignatureException"
        # boto3 corrects its clock when S3 complains, and would repeat the request.
        s3 = aws.emulator.client("s3", retries={"total_max_attempts": 1})
        assert code_of(s3, "list_objects_v2", Bucket=aws.bucket) == "RequestTimeTooSkewed"


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_a_presigned_address_works_until_it_expires(aws: Account, version: str) -> None:
    aws.put("a b.txt", "hello")
    s3 = aws.emulator.client("s3", signature_version=version)
    where = {"Bucket": aws.bucket, "Key": "a b.txt"}
    address = s3.generate_presigned_url("get_object", Params=where)
    with urllib.request.urlopen(address, timeout=120) as answer:
        assert answer.read() == b"hello"
    assert status_of(address.replace("a%20b", "other"), {}) == 403
    assert status_of(s3.generate_presigned_url("get_object", Params=where, ExpiresIn=-5), {}) == 403


@pytest.mark.parametrize("version", ["s3", "s3v4"])
def test_an_html_form_uploads_with_a_signed_policy(aws: Account, version: str) -> None:
    s3 = aws.emulator.client("s3", signature_version=version)
    post = s3.generate_presigned_post(aws.bucket, "form.txt")
    assert _submit(post["url"], post["fields"]) in (200, 204)
    assert aws.get("form.txt") == "from a form"
    for name in ("signature", "x-amz-signature"):
        if name in post["fields"]:
            assert _submit(post["url"], {**post["fields"], name: "0" * 64}) == 403
    assert _submit(post["url"], {"key": "form.txt"}) == 403
    expired = s3.generate_presigned_post(aws.bucket, "form.txt", ExpiresIn=-5)
    assert _submit(expired["url"], expired["fields"]) == 403


def test_keys_of_users_and_roles_are_accepted_and_nothing_near_them(aws: Account) -> None:
    iam, name = aws.client("iam"), aws.name()
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    user = client(aws, "sts", key["AccessKeyId"], key["SecretAccessKey"])
    assert user.get_caller_identity()["Arn"].endswith(f"user/{name}")
    iam.update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert code_of(user, "get_caller_identity") == "InvalidClientTokenId"
    role = aws.client("sts").assume_role(RoleArn=aws.emulator.role, RoleSessionName=name)["Credentials"]
    pair = (role["AccessKeyId"], role["SecretAccessKey"])
    assert client(aws, "s3", *pair, role["SessionToken"]).list_buckets()["Buckets"]
    assert code_of(client(aws, "s3", *pair, "other"), "list_buckets") == "InvalidToken"
    assert code_of(client(aws, "s3", *pair), "list_buckets") == "InvalidToken"


def test_secret_keys_cannot_be_computed_from_the_number_of_requests(aws: Account) -> None:
    sts = aws.client("sts")
    found = [
        sts.assume_role(RoleArn=aws.emulator.role, RoleSessionName="session")["Credentials"][
            "SecretAccessKey"
        ]
        for _ in range(2)
    ]
    from moto.iam.utils import random_alphanumeric
    from moto.moto_api._internal import mock_random

    guesses = set()
    for seed in range(2000):
        mock_random.seed(seed)
        guesses.add(random_alphanumeric(40))
    assert not guesses.intersection(found)


@pytest.mark.parametrize(
    ("service", "key"),
    [("s3", "a folder/ü+~*'()!$&,;=:@.txt"), ("s3", "a//b/../c/./%2F%41"), ("s3", "plain.txt")],
)
def test_unusual_keys_are_signed_as_sent(aws: Account, service: str, key: str) -> None:
    body = f"{service} {key}".encode()
    aws.client(service).put_object(Bucket=aws.bucket, Key=key, Body=body, Metadata={"under_score": "v  v"})
    assert aws.client(service).get_object(Bucket=aws.bucket, Key=key)["Body"].read() == body


def test_a_streamed_body_is_accepted(aws: Account) -> None:
    s3 = aws.emulator.client("s3", request_checksum_calculation="when_supported")
    s3.put_object(Bucket=aws.bucket, Key="streamed", Body=b"x" * 100_000, ChecksumAlgorithm="SHA256")
    assert len(aws.get("streamed")) == 100_000


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://example.com"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "example.com"},
        {"Host": "127.0.0.1.example.com"},
        {"Host": "localhost.example.com:4599"},
    ],
)
def test_a_web_page_is_rejected_even_with_a_signature(aws: Account, headers: dict[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        aws.emulator.open("POST", "/", b"{}", headers | _JSON)
    assert caught.value.code == 403
    assert b"Web pages" in caught.value.read()
    caught.value.close()


def test_a_preflight_request_allows_nothing(aws: Account) -> None:
    request = urllib.request.Request(
        aws.emulator.url, headers={"Origin": "http://localhost:3000"}, method="OPTIONS"
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=120)
    assert not [name for name in caught.value.headers if name.lower().startswith("access-control")]
    caught.value.close()


def test_responses_of_moto_carry_no_cors_headers(aws: Account) -> None:
    headers = aws.client("s3").list_buckets()["ResponseMetadata"]["HTTPHeaders"]
    assert not [name for name in headers if name.startswith("access-control")]


def test_the_admin_api_needs_the_token(aws: Account) -> None:
    url = f"{aws.emulator.url}/_gpuproof/requests"
    assert status_of(url, {}) == 403
    assert status_of(url, {"Authorization": "Bearer emulator"}) == 403
    assert status_of(url, {"Authorization": f"Bearer {aws.emulator.token}"}) == 200
    assert status_of(f"{aws.emulator.url}/_gpuproof/health", {}) == 200


def test_a_region_that_is_no_name_is_rejected(aws: Account) -> None:
    credential = "emulator/20260101/../sagemaker/aws4_request"
    header = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"
    assert status_of(aws.emulator.url, {**_JSON, "Authorization": header}, b"{}") == 400


def test_files_of_the_state_are_the_users_alone(aws: Account) -> None:
    state = aws.emulator.state
    assert oct(state.stat().st_mode)[-3:] == "700"
    assert oct((state / "token").stat().st_mode)[-3:] == "600"


def _submit(url: str, fields: Mapping[str, str]) -> int:
    mark = "form-boundary"
    parts = [
        f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    parts.append(
        f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nfrom a form\r\n--{mark}--\r\n'
    )
    return status_of(url, {"Content-Type": f"multipart/form-data; boundary={mark}"}, "".join(parts).encode())
