"""Sends data to endpoints and local servers: `gpuproof predict`, and `gpuproof.predict` in Python."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from gpuproof.app.session import aws_client, print_note
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.endpoints.invocation import asynchronous, local_server, real_time
from gpuproof.backends.sagemaker.endpoints.invocation.asynchronous import Submitted
from gpuproof.backends.sagemaker.endpoints.invocation.endpoint import find_endpoint
from gpuproof.backends.sagemaker.endpoints.invocation.payload import Payload, check_content_type, read_payload
from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions, Prediction
from gpuproof.errors import UsageError
from gpuproof.serve.media_types import JSON, NPY, OCTETS
from gpuproof.units import Duration, UnitError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.invocation.endpoint import Endpoint


@dataclass(frozen=True, repr=False)
class Response:
    """The response of a model; as a text, its body.

    Args:
        body: the bytes.
        content_type: its media type.
        seconds: from the request to the end of the response.
        variant: the production variant that answered; empty if there is none.
        location: address in S3 of an asynchronous response; empty for others.
    """

    body: bytes
    content_type: str
    seconds: float
    variant: str = ""
    location: str = ""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as parsed JSON; raises ValueError if it is none."""
        return json.loads(self.body)

    def __str__(self) -> str:
        is_text = Prediction(self.content_type, iter(())).is_text
        return self.text if is_text else f"{len(self.body)} bytes of {self.content_type or 'binary data'}"

    def __repr__(self) -> str:
        return f"<Response: {self.content_type}, {len(self.body)} bytes, {self.seconds:.3f} s>"

    def _repr_html_(self) -> str:
        from gpuproof.terminal.html import preformatted_html  # for notebooks only

        return preformatted_html(str(self))


def predict(
    name: str,
    data: object,
    *,
    content_type: str | None = None,
    accept: str | None = None,
    target_model: str = "",
    target_variant: str = "",
    timeout: str | float | None = None,
    region: str | None = None,
    profile: str | None = None,
) -> Response:
    """Send data to an endpoint or to a server on this machine, as `gpuproof predict` does.

    The result of an asynchronous endpoint is waited for.

    Args:
        name: an endpoint, or `http://HOST:PORT` of a server.
        data: a text as on the command line (a file, JSON, `s3://…`), a path, bytes, a NumPy array (sent as NPY), or a value
            that is sent as JSON.
        content_type: of the data; by the file's suffix or the type of `data` if not given.
        accept: content type of the response; the model's if not given.
        target_model: a model of a multi-model endpoint.
        target_variant: a production variant.
        timeout: for the response: seconds, or a text such as `2m`; 60 seconds, 15 minutes for asynchronous endpoints, if
            not given.
        region: the AWS region; that of the AWS configuration if not given.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: there is no such endpoint, or the model does not answer; the message has the end of its log.
    """
    check_content_type("content_type", content_type)
    options = InvocationOptions(
        accept=check_content_type("accept", accept),
        target_model=target_model,
        target_variant=target_variant,
        timeout=response_timeout("timeout", timeout),
    )
    payload = _payload(data, content_type)
    sent = responses(name, [payload], options, partial(aws_client, region, profile))
    with sigterm_interrupts(), closing(sent):
        _, prediction, start = next(sent)
        body = b"".join(prediction.pieces)
    seconds = time.monotonic() - start
    return Response(body, prediction.content_type, seconds, prediction.variant, prediction.location)


def response_timeout(argument: str, value: str | float | None) -> float | None:
    """Parses `2m`; returns seconds. Raises UsageError, which names the argument."""
    if value is None:
        return None
    try:
        seconds = float(value if isinstance(value, int | float) else Duration.parse(value).seconds)
    except UnitError as error:
        raise UsageError(f"{argument}: {error}.") from error
    if seconds <= 0:
        raise UsageError(f"{argument} must be at least one second.")
    return seconds


def responses(
    name: str,
    payloads: Sequence[Payload],
    options: InvocationOptions,
    client: Callable[[], Aws],
    queued: Callable[[list[Submitted]], None] | None = None,
) -> Generator[tuple[Payload, Prediction, float]]:
    """Sends data, and yields each response with the time at which its request was sent, on the monotonic clock.

    If it is closed early, it says which requests are still in the queue of an asynchronous endpoint.

    Args:
        name: an endpoint, or the URL of a server.
        client: creates the client of AWS; not called for a URL.
        queued: of an asynchronous endpoint, called with the requests; their results are then not waited for.

    Raises:
        GPUproofError: there is no such endpoint, an option does not apply to it, or the model does not answer.
    """
    if local_server.is_url(name):
        if queued is not None:
            raise UsageError("--no-wait is only for asynchronous endpoints.")
        yield from _in_turn(payloads, lambda payload: local_server.invoke(name, payload, options))
        return
    aws = client()
    endpoint = find_endpoint(aws, name)
    if endpoint.async_output:
        yield from _asynchronous(aws, endpoint, payloads, options, queued)
        return
    if queued is not None:
        if endpoint.refused is not None:
            raise endpoint.refused
        raise UsageError(f"--no-wait is only for asynchronous endpoints; {endpoint.name} is none.")
    if options.target_variant and endpoint.variants and options.target_variant not in endpoint.variants:
        raise UsageError(
            f"The endpoint {endpoint.name} has no variant {options.target_variant}.",
            remedy=f"It has {', '.join(endpoint.variants)}.",
        )
    yield from _in_turn(payloads, lambda payload: real_time.invoke(aws, endpoint, payload, options))


def _in_turn(
    payloads: Sequence[Payload], invoke: Callable[[Payload], Prediction]
) -> Generator[tuple[Payload, Prediction, float]]:
    for payload in payloads:
        start = time.monotonic()
        yield payload, invoke(payload), start


def _asynchronous(
    aws: Aws,
    endpoint: Endpoint,
    payloads: Sequence[Payload],
    options: InvocationOptions,
    queued: Callable[[list[Submitted]], None] | None,
) -> Generator[tuple[Payload, Prediction, float]]:
    start = time.monotonic()
    submitted: list[Submitted] = []
    answered = 0
    try:
        for payload in payloads:
            asynchronous.submit(aws, endpoint, payload, options, submitted.append)
        if queued is not None:
            queued(submitted)
            return
        for payload, request in zip(payloads, submitted, strict=True):
            try:
                prediction = asynchronous.wait(aws, endpoint, request, options)
            except asynchronous.RequestFailed:
                answered += 1
                raise
            answered += 1
            yield payload, prediction, start
    except BaseException:
        for request in submitted[answered:]:
            print_note(f"the request is still in the queue: its result will be at {request.output}")
            if request.upload:
                print_note(f"its data was not deleted: {request.upload}")
        raise


def _payload(data: object, content_type: str | None) -> Payload:
    """The body of a request: a text as on the command line, a path, bytes, an array, or a value as JSON."""
    if isinstance(data, str | PathLike):
        return read_payload(fspath(data), content_type, None)
    if isinstance(data, bytes | bytearray | memoryview):
        return Payload("data", bytes(data), content_type or OCTETS)
    numpy = sys.modules.get("numpy")  # without it, there are no arrays
    if numpy is not None and isinstance(data, numpy.ndarray):
        file = io.BytesIO()
        numpy.save(file, data, allow_pickle=False)
        return Payload("data", file.getvalue(), content_type or NPY)
    try:
        return Payload("data", json.dumps(data).encode(), content_type or JSON)
    except TypeError as error:
        raise UsageError(
            f"{type(data).__name__} cannot be sent as JSON: {error}.",
            remedy="Pass bytes, a NumPy array or a path.",
        ) from error
