"""Invocations of an endpoint that answers at once, whole or as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.sagemaker.endpoints.invocation.endpoint import Endpoint
from gpuproof.backends.sagemaker.endpoints.invocation.errors import (
    ModelFailed,
    model_error,
    reject_large,
    timed_out,
)
from gpuproof.backends.sagemaker.endpoints.invocation.payload import Payload
from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions, Prediction
from gpuproof.errors import UsageError

LIMIT_S = 60.0
"""Seconds within which a container must respond: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html"""
_SLACK_S = 10.0
_LINES = 10
_CHUNK = 1 << 16


def invoke(aws: Aws, endpoint: Endpoint, payload: Payload, options: InvocationOptions) -> Prediction:
    """Send one request.

    Raises:
        UsageError: the body is larger than the endpoint takes, or is in S3.
        ModelFailed: the model answered with an error, or not in time.
        AwsRefused: SageMaker rejects the request.
    """
    if payload.uri:
        raise UsageError(
            f"{payload.uri}: only asynchronous endpoints read their data from S3, and {endpoint.name} is none.",
            remedy=f"aws s3 cp {payload.uri} FILE, then --data FILE",
        )
    reject_large(endpoint.name, len(payload.content), endpoint.max_body, payload.name)
    request: dict[str, Any] = {
        "EndpointName": endpoint.name,
        "Body": payload.content,
        "ContentType": payload.content_type,
    }
    if options.accept:
        request["Accept"] = options.accept
    if options.target_variant:
        request["TargetVariant"] = options.target_variant
    if options.target_model:
        if options.stream:
            raise UsageError(
                "--stream does not go together with --target-model: SageMaker has no such request."
            )
        request["TargetModel"] = options.target_model
    limit = options.timeout or LIMIT_S + _SLACK_S
    try:
        answer = aws.invoke_endpoint(request, stream=options.stream, timeout=limit)
    except AwsRefused as refused:
        raise explain_refusal(aws, endpoint, payload, refused) from refused
    except AwsUnreachable as error:
        if "ReadTimeout" in type(error.__cause__).__name__:
            raise timed_out(endpoint.name, limit, _tail(aws, endpoint)) from error
        raise
    pieces = _events(aws, endpoint, answer["Body"]) if options.stream else _chunks(aws, answer["Body"])
    return Prediction(answer.get("ContentType", ""), pieces, answer.get("InvokedProductionVariant", ""))


def explain_refusal(aws: Aws, endpoint: Endpoint, payload: Payload, refused: AwsRefused) -> Exception:
    """The error for a request that SageMaker or the model rejected."""
    response: dict[str, Any] = getattr(refused.__cause__, "response", {})
    if refused.code != "ModelError":
        return refused
    status = int(response.get("OriginalStatusCode") or 0)
    text = str(response.get("OriginalMessage") or "")
    if status == 0:
        return timed_out(endpoint.name, LIMIT_S, _tail(aws, endpoint))
    error = model_error(endpoint.name, status, text, payload.content_type, _tail(aws, endpoint))
    lines = _log_lines(aws, response.get("LogStreamArn", "")) if status >= 500 else []
    return error if not lines else error.replaced("\n".join([error.message, *lines]), error.remedy)


def _tail(aws: Aws, endpoint: Endpoint) -> str:
    return f"aws logs tail {endpoint.log_group} --since 10m{aws.region_flag}"


def _log_lines(aws: Aws, arn: str) -> list[str]:
    """The last lines of the log stream of an ARN (`…:log-group:GROUP:log-stream:STREAM`); none if it cannot be read."""
    _, found, rest = arn.partition(":log-group:")
    group, _, stream = rest.partition(":log-stream:")
    if not found or not stream:
        return []
    try:
        events, _ = aws.last_log_events(group, stream)
    except (AwsRefused, AwsUnreachable):
        return []
    return [f"  {event.message.rstrip()}" for event in events[-_LINES:]]


def _chunks(aws: Aws, body: Any) -> Iterator[bytes]:
    with aws.translated_stream("InvokeEndpoint"):
        while content := body.read(_CHUNK):
            yield content


def _events(aws: Aws, endpoint: Endpoint, stream: Any) -> Iterator[bytes]:
    from botocore.exceptions import EventStreamError  # slow to import: only for runs on AWS

    try:
        with aws.translated_stream("InvokeEndpointWithResponseStream"):
            for event in stream:
                if "PayloadPart" in event:
                    yield event["PayloadPart"]["Bytes"]
    except AwsRefused as refused:
        if not isinstance(refused.__cause__, EventStreamError):
            raise
        raise ModelFailed(
            f"The response of {endpoint.name} ended early: {refused.aws_message}",
            f"The reason is in the log: {_tail(aws, endpoint)}",
        ) from refused
