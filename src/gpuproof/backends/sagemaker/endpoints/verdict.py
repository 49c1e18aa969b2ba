"""The verdict of an endpoint: whether the model is on the GPU, as GPUproof's server says through InvokeEndpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.serve.frontend.verdict import VERDICT

_ATTEMPTS = 10
_PAUSE_SECONDS = 2.0
_TIMEOUT_SECONDS = 70.0
"""SageMaker waits 60 s for a model: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html"""


@dataclass(frozen=True)
class EndpointVerdict:
    """A verdict.

    Args:
        verdict: `used`, `cpu-only`, `no-gpu` or `unknown`.
    """

    verdict: str
    reason: str

    @property
    def not_on_gpu(self) -> bool:
        """Whether the model is certainly not on a GPU."""
        return self.verdict in ("cpu-only", "no-gpu")


def ask_verdict(aws: Aws, endpoint: str, sleep: Callable[[float], None]) -> EndpointVerdict:
    """Ask the server; while it does not know yet, ask again: it samples the GPUs once a second.

    Raises:
        GPUproofError: the endpoint cannot be invoked.
    """
    found = EndpointVerdict("unknown", "the server was not asked")
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(_PAUSE_SECONDS)
        try:
            body = send(aws, endpoint, b"{}", "application/json", VERDICT)
        except AwsRefused as refused:
            if refused.code != "ModelError":
                raise
            return EndpointVerdict("unknown", f"the server did not answer: {refused.aws_message}")
        found = read_verdict(body)
        if found.verdict != "unknown":
            return found
    return found


def send(aws: Aws, endpoint: str, body: bytes, content_type: str, attributes: str | None = None) -> bytes:
    """Invoke an endpoint and return the body of its response.

    Args:
        attributes: the value of `X-Amzn-SageMaker-Custom-Attributes`, which SageMaker passes on to the container.

    Raises:
        AwsRefused: with the code `ModelError` if the model answered with an error.
    """
    request: dict[str, Any] = {"EndpointName": endpoint, "Body": body, "ContentType": content_type}
    if attributes is not None:
        request["CustomAttributes"] = attributes
    return aws.invoke_endpoint(request, stream=False, timeout=_TIMEOUT_SECONDS)["Body"].read()


def read_verdict(body: bytes) -> EndpointVerdict:
    """The verdict in a server's answer; `unknown` if another server answered."""
    try:
        document = json.loads(body)
        return EndpointVerdict(str(document["verdict"]), str(document["reason"]))
    except (ValueError, KeyError, TypeError):
        return EndpointVerdict("unknown", "the answer is not that of GPUproof's server")
