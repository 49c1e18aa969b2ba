"""Notifications by SNS: signed without the SDK, with the credentials of the host's role, and received by what is subscribed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from gpuproof.agent.notify import aws_request
from gpuproof.agent.notify.aws_request import Credentials, find_credentials, signed_headers
from gpuproof.agent.notify.events import NotSent, Sender, compose
from gpuproof.agent.notify.sns import publish
from support.aws_loopback import MetadataService
from support.http_receiver import Receiver
from support.s3_server import CREDENTIALS, MotoServer

NOTHING = {
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
}
MESSAGE = compose("stalled", "no progress", Sender("cats-1", "cats", "ml.g5.xlarge", None), {"time": 1.0})


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    server = MotoServer()
    yield server
    server.stop()


def client(service: str, server: MotoServer) -> Any:
    return boto3.client(
        service,
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.mark.slow
def test_a_queue_that_is_subscribed_receives_the_document(moto: MotoServer) -> None:
    sns, sqs = client("sns", moto), client("sqs", moto)
    topic = sns.create_topic(Name="runs")["TopicArn"]
    queue = sqs.create_queue(QueueName="runs")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    publish(topic, MESSAGE, {**CREDENTIALS, "AWS_ENDPOINT_URL": moto.url})
    (received,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    body = json.loads(received["Body"])
    assert body["Subject"] == "gpuproof: cats: stalled"
    assert body["MessageAttributes"]["event"]["Value"] == "stalled"
    document = json.loads(body["Message"])
    assert document["text"] == MESSAGE.text
    assert (document["event"], document["run"]) == ("stalled", "cats-1")


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_named_by_the_code(moto: MotoServer) -> None:
    with pytest.raises(NotSent, match="SNS responded with NotFound"):
        publish(
            "arn:aws:sns:us-east-1:123456789012:gone",
            MESSAGE,
            {**CREDENTIALS, "AWS_ENDPOINT_URL_SNS": moto.url},
        )


def test_without_credentials_nothing_is_sent() -> None:
    with pytest.raises(NotSent, match="no AWS credentials"):
        publish("arn:aws:sns:us-east-1:123456789012:runs", MESSAGE, NOTHING)


def test_an_address_that_cannot_be_reached_is_the_reason() -> None:
    receiver = Receiver(200)
    receiver.close()
    with pytest.raises(NotSent, match="SNS could not be reached"):
        publish(
            "arn:aws:sns:us-east-1:123456789012:runs",
            MESSAGE,
            {**CREDENTIALS, "AWS_ENDPOINT_URL": receiver.url},
        )


@pytest.mark.parametrize("token", [None, "a session's token"])
def test_the_signature_is_that_of_the_sdk(token: str | None) -> None:
    url, body = "https://sns.eu-west-1.amazonaws.com", b"Action=Publish&Message=%22a%22"
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", token)
    signed = signed_headers(credentials, "sns", "eu-west-1", url, body, headers)
    request = AWSRequest("POST", f"{url}/", headers=headers, data=body)
    signer = SigV4Auth(BotocoreCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", token), "sns", "eu-west-1")
    request.context["timestamp"] = signed["X-Amz-Date"]
    request.headers["X-Amz-Date"] = signed["X-Amz-Date"]
    if token:
        request.headers["X-Amz-Security-Token"] = token
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    assert signed["Authorization"].endswith(f"Signature={signature}")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_the_signature_of_a_request_to_s3_is_that_of_the_sdk(method: str) -> None:
    url = "https://bucket.s3.eu-west-1.amazonaws.com/a%20key/b%2Bc.json?list-type=2&prefix=a%2Fb"
    body = b"{}" if method == "PUT" else b""
    headers = {"Content-Type": "application/json"} if method == "PUT" else {}
    signed = signed_headers(
        Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG"),
        "s3",
        "eu-west-1",
        url,
        body,
        headers,
        method=method,
    )
    request = AWSRequest(method, url, headers=headers, data=body)
    signer = S3SigV4Auth(BotocoreCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG"), "s3", "eu-west-1")
    request.context["timestamp"] = signed["X-Amz-Date"]
    request.headers["X-Amz-Date"] = signed["X-Amz-Date"]
    request.headers["X-Amz-Content-SHA256"] = hashlib.sha256(body).hexdigest()
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    assert signed["Authorization"].endswith(f"Signature={signature}")


def test_variables_come_first() -> None:
    environ = {**NOTHING, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    assert find_credentials(environ) == Credentials("a", "b", "c")


@pytest.mark.slow
def test_the_role_of_a_kubernetes_service_account_is_assumed_with_its_token(
    monkeypatch: pytest.MonkeyPatch, moto: MotoServer, tmp_path: Path
) -> None:
    # The first request of a kind makes the server import a module, which takes seconds on a busy machine.
    monkeypatch.setattr(aws_request, "_TIMEOUT_S", 300.0)
    (tmp_path / "token").write_text("a.b.c\n")
    environ = {
        **NOTHING,
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/train",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": moto.url,
    }
    found = find_credentials(environ)
    assert found is not None
    assert found.key.startswith("ASIA")
    assert found.token
    assert find_credentials({**environ, "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "missing")}) is None


def test_the_role_of_a_container_is_asked_for_with_its_token(tmp_path: Path) -> None:
    role = json.dumps({"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c"})
    (tmp_path / "token").write_text("secret\n")
    with MetadataService({"meta-data/iam/security-credentials/": "unused"}) as service:
        service.respond = lambda method, path, headers, body: (  # type: ignore[method-assign]
            (200, role) if headers.get("Authorization") == "secret" else (401, "")
        )
        environ = {
            **NOTHING,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{service.url}/role",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
        }
        assert find_credentials(environ) == Credentials("a", "b", "c")


def test_the_role_of_an_instance_comes_from_its_metadata() -> None:
    role = json.dumps({"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "c"})
    path = "meta-data/iam/security-credentials/"
    with MetadataService({path: "gpuproof-ec2", f"{path}gpuproof-ec2": role}) as service:
        environ = {
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": service.url,
        }
        assert find_credentials(environ) == Credentials("a", "b", "c")


def test_a_profile_with_a_key_of_its_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("[work]\naws_access_key_id = a\naws_secret_access_key = b%c\n")
    environ = {**NOTHING, "AWS_SHARED_CREDENTIALS_FILE": str(path), "AWS_PROFILE": "work"}
    assert find_credentials(environ) == Credentials("a", "b%c")
    assert find_credentials({**environ, "AWS_PROFILE": "other"}) is None
