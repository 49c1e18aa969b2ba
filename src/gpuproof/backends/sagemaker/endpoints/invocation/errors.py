"""Errors of invocations: what the model answered, and what to change or type next."""

from __future__ import annotations

from gpuproof.errors import GPUproofError, UsageError

MAX_BODY = 6 << 20
"""Bytes of a real-time request: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html"""
MAX_SERVERLESS_BODY = 4 << 20
"""Bytes of a request to a serverless endpoint: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html"""
MAX_ASYNC_BODY = 1 << 30
"""Bytes of an asynchronous request: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference.html"""
LONGEST = 2000
"""Maximum length of a model's message, in characters."""


class ModelFailed(GPUproofError):
    """The model answered with an error, or not in time.

    Args:
        status: the HTTP status of the container's response; 0 if there was none in time.
    """

    def __init__(
        self, message: str, remedy: str | None = None, *, status: int = 0, model_message: str = ""
    ) -> None:
        super().__init__(message, remedy)
        self.status = status
        self.model_message = model_message


def model_error(name: str, status: int, text: str, content_type: str, logs: str) -> ModelFailed:
    """The error for a response of the model with a status that is not 2xx.

    Args:
        name: of the endpoint or the server.
        status: the HTTP status of the container's response.
        logs: how to read the container's log.
    """
    shown = " ".join(text.split())[:LONGEST]
    message = f"The model of {name} answered {status}: {shown or 'without a message'}"
    if status == 415:
        remedy = f"It does not take {content_type}: name the type of the data with --content-type."
    elif status == 406:
        remedy = "It cannot answer in the type that --accept names."
    elif 400 <= status < 500:
        remedy = "The data does not suit the model; its handler decides what it takes."
    else:
        remedy = f"The reason is in the log: {logs}"
    return ModelFailed(message, remedy, status=status, model_message=text)


def timed_out(name: str, seconds: float, logs: str) -> ModelFailed:
    """The error for a model that does not answer in time."""
    return ModelFailed(
        f"The model of {name} did not answer within {seconds:g} s.",
        f"For longer computations, deploy an asynchronous endpoint. What it does is in the log: {logs}",
    )


def reject_large(name: str, size: int, limit: int, payload: str) -> None:
    """Reject a body that SageMaker would reject, before it is sent.

    Raises:
        UsageError: it is larger than the limit.
    """
    if size <= limit:
        return
    larger = "An asynchronous endpoint takes up to 1 GiB, and `gpuproof transform` whole folders in S3."
    remedy = "Split the data." if limit >= MAX_ASYNC_BODY else f"Split the data. {larger}"
    raise UsageError(
        f"{payload} has {size:,} bytes; {name} takes at most {limit:,} bytes in one request.", remedy=remedy
    )
