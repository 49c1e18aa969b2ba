"""A model's container: who can reach it, and what it can reach."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from support.emulator_jobs import Account
from support.emulator_models import container, invoke, served

pytestmark = pytest.mark.slow

HANDLER = """
import os, socket

def model_fn(model_dir):
    return int(os.environ["EMULATOR_PORT"])

def transform_fn(port, body, content_type, accept):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return "reached", "text/plain"
    except OSError:
        return f"isolated, {os.environ.get('AWS_ACCESS_KEY_ID')}", "text/plain"
"""


def test_an_isolated_model_serves_and_reaches_nothing(aws: Account) -> None:
    port = aws.emulator.url.rpartition(":")[2]
    definition = container(aws, {"code/inference.py": HANDLER}, EMULATOR_PORT=port)
    client, name = aws.client("sagemaker"), aws.name()
    client.create_model(
        ModelName=name,
        ExecutionRoleArn=aws.emulator.role,
        PrimaryContainer=definition,
        EnableNetworkIsolation=True,
    )
    isolated = served(aws, definition, ModelName=name)
    assert invoke(aws, isolated, b"x")["Body"] == b"isolated, None"
    client.delete_endpoint(EndpointName=isolated)


def test_a_body_over_6_mb_is_rejected(aws: Account) -> None:
    port = aws.emulator.url.rpartition(":")[2]
    name = served(aws, container(aws, {"code/inference.py": HANDLER}, EMULATOR_PORT=port))
    assert invoke(aws, name, b"x" * (6 << 20))["Body"] == b"reached"
    with pytest.raises(ClientError) as caught:
        invoke(aws, name, b"x" * ((6 << 20) + 1))
    assert caught.value.response["Error"] == {
        "Code": "413",
        "Message": "HTTP content length exceeded 6291456 bytes.",
    }
    aws.client("sagemaker").delete_endpoint(EndpointName=name)
