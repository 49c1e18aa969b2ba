"""Invocations of an asynchronous endpoint: the data goes to S3, and the result comes from there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.sagemaker.endpoints.invocation.endpoint import Endpoint
from gpuproof.backends.sagemaker.endpoints.invocation.errors import ModelFailed, reject_large
from gpuproof.backends.sagemaker.endpoints.invocation.payload import Payload
from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions, Prediction
from gpuproof.errors import UsageError

LIMIT_S = 900.0
"""Seconds to wait for a result: the default of InvocationTimeoutSeconds,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpointAsync.html"""
_INPUTS = "gpuproof-inputs"


class RequestFailed(ModelFailed):
    """The model answered an asynchronous request with an error."""


@dataclass(frozen=True)
class Submitted:
    """A request in the queue of an asynchronous endpoint.

    Args:
        failure: address of the error, if it fails; empty if the endpoint writes none.
        upload: address of the data that was uploaded for it; empty if it was in S3 already.
    """

    id: str
    output: str
    failure: str
    upload: str


def submit(
    aws: Aws,
    endpoint: Endpoint,
    payload: Payload,
    options: InvocationOptions,
    record: Callable[[Submitted], None],
) -> None:
    """Upload the data and queue the request. The data is uploaded next to the endpoint's results.

    Args:
        record: called with the request as soon as it is in the queue, also if an interrupt comes meanwhile.

    Raises:
        UsageError: the data is too large, or an option does not go together with asynchronous endpoints.
        AwsRefused: S3 or SageMaker rejects the request; what was uploaded is deleted, as after an interrupt.
    """
    for flag, given in (
        ("--stream", options.stream),
        ("--target-model", options.target_model),
        ("--target-variant", options.target_variant),
    ):
        if given:
            raise UsageError(f"{flag} is only for real-time endpoints; {endpoint.name} is asynchronous.")
    reject_large(endpoint.name, len(payload.content), endpoint.max_body, payload.name)
    upload = ""
    if not payload.uri:
        suffix = PurePosixPath(payload.name).suffix
        upload = f"{endpoint.async_output.rstrip('/')}/{_INPUTS}/{uuid.uuid4()}{suffix}"
    request: dict[str, Any] = {
        "EndpointName": endpoint.name,
        "InputLocation": payload.uri or upload,
        "ContentType": payload.content_type,
    }
    if options.accept:
        request["Accept"] = options.accept
    is_queued = False
    try:
        if upload:
            aws.put_object(*_split(upload), payload.content)
        # A request that is interrupted may be in the queue, and then needs its data.
        with DeferredInterrupt():
            answer = aws.call("sagemaker-runtime", "invoke_endpoint_async", **request)
            is_queued = True
            identifier, failure = answer.get("InferenceId", ""), answer.get("FailureLocation", "")
            record(Submitted(identifier, answer["OutputLocation"], failure, upload))
    except BaseException:
        if not is_queued:
            delete_upload(aws, upload)
        raise


def wait(
    aws: Aws,
    endpoint: Endpoint,
    submitted: Submitted,
    options: InvocationOptions,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Prediction:
    """Wait for the result or the failure; the uploaded data is deleted then, and not while the request is in the queue.

    Raises:
        ModelFailed: the model failed, or there is no result within the time limit.
    """
    limit = options.timeout or LIMIT_S
    deadline, pauses = clock() + limit, poll_pauses()
    while True:
        bucket, key = _split(submitted.output)
        if aws.object(bucket, key) is not None:
            delete_upload(aws, submitted.upload)
            answer = aws.get_object(bucket, key)
            return Prediction(
                answer.get("ContentType", ""), _chunks(aws, answer["Body"]), location=submitted.output
            )
        if submitted.failure and (text := aws.get_bytes(*_split(submitted.failure))) is not None:
            delete_upload(aws, submitted.upload)
            raise RequestFailed(
                f"The asynchronous request to {endpoint.name} failed: {text.decode('utf-8', 'replace')}",
                f"The error is stored at {submitted.failure}.",
                model_message=text.decode("utf-8", "replace"),
            )
        if clock() >= deadline:
            raise ModelFailed(
                f"{endpoint.name} has no result after {limit:g} s: it is still in the queue, or it failed.",
                f"Look for the result later: aws s3 cp {submitted.output} -",
            )
        sleep(max(0.0, min(next(pauses), deadline - clock())))


def delete_upload(aws: Aws, upload: str) -> None:
    """Delete the data that was uploaded for a request."""
    if upload:
        bucket, key = _split(upload)
        aws.delete_objects(bucket, [key])


def _split(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def _chunks(aws: Aws, body: Any) -> Iterator[bytes]:
    with aws.translated_stream("GetObject"):
        while content := body.read(1 << 16):
            yield content
