"""Send data to an endpoint, or to a server on this machine, and print the response.

NAME is an endpoint of SageMaker, or the URL of a server: http://127.0.0.1:8080. Each --data is one request: a file, JSON in
quotes, or - for standard input. The content type follows from the file's suffix. Asynchronous endpoints get the data
through S3, and the command waits for the result.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag, validate_content_type
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.invocation.asynchronous import Submitted
    from gpuproof.backends.sagemaker.endpoints.invocation.endpoint import Endpoint
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import Payload
    from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions, Prediction
    from gpuproof.cli.arguments import Subparsers

SCHEMA_VERSION = 1


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof predict` to the command line."""
    parser = add_command(
        commands, "predict", "send data to an endpoint or a local server, and print the response", __doc__
    )
    parser.add_argument("name", metavar="NAME", help="an endpoint's name, or http://HOST:PORT of a server")
    parser.add_argument(
        "--data",
        action="append",
        required=True,
        metavar="FILE",
        help="a file (JSON, JSON lines, CSV, NPY, an image, …), JSON itself, - for standard input, or s3://… for an "
        "asynchronous endpoint; may be repeated",
    )
    parser.add_argument(
        "--content-type", metavar="T", help="type of the data (default: by the file's suffix)"
    )
    parser.add_argument("--accept", metavar="T", help="type of the response (default: the model's)")
    parser.add_argument("--target-model", default="", metavar="M", help="a model of a multi-model endpoint")
    parser.add_argument(
        "--target-variant", default="", metavar="V", help="a production variant of the endpoint"
    )
    parser.add_argument(
        "--stream", action="store_true", help="print the response piece by piece, as it arrives"
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="asynchronous endpoints: print where the result will be, and do not wait for it",
    )
    parser.add_argument(
        "--timeout",
        metavar="60s",
        help="time limit for a response (default: 60s; asynchronous endpoints: 15m)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the response to a file; with several --data, to files in a folder",
    )
    parser.add_argument("--region", help="AWS region of the endpoint (default: AWS_REGION)")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof predict`."""
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import STDIN

    validate_content_type(arguments.content_type)
    if arguments.data.count(STDIN) > 1:
        raise UsageError("--data - can be given once: standard input is read once.")
    if arguments.stream and arguments.format == "json":
        raise UsageError("--stream does not go together with --format json.")
    options = _options(arguments)
    with sigterm_interrupts():
        return _send(arguments, options)


def _send(arguments: argparse.Namespace, options: InvocationOptions) -> int:
    from gpuproof.backends.sagemaker.endpoints.invocation.local_server import is_url
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import read_payload

    payloads = [read_payload(data, arguments.content_type, sys.stdin.buffer) for data in arguments.data]
    if is_url(arguments.name):
        return _predict_local(arguments, payloads, options)
    return _predict(arguments, payloads, options)


def _predict_local(arguments: argparse.Namespace, payloads: list[Payload], options: InvocationOptions) -> int:
    from gpuproof.backends.sagemaker.endpoints.invocation import local_server

    if arguments.no_wait:
        raise UsageError("--no-wait is only for asynchronous endpoints.")
    output = _Output(arguments, len(payloads))
    for payload in payloads:
        start = time.monotonic()
        output.add(payload, local_server.invoke(arguments.name, payload, options), start)
    output.close()
    return ExitCode.OK


def _predict(arguments: argparse.Namespace, payloads: list[Payload], options: InvocationOptions) -> int:
    from gpuproof import settings
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.endpoints.invocation import real_time
    from gpuproof.backends.sagemaker.endpoints.invocation.endpoint import find_endpoint

    notify = partial(print, file=sys.stderr)
    aws = Aws(session=settings.boto3_session, region=arguments.region, notify=notify)
    endpoint = find_endpoint(aws, arguments.name)
    if endpoint.async_output:
        return _predict_asynchronously(arguments, aws, endpoint, payloads, options)
    if arguments.no_wait:
        raise UsageError(f"--no-wait is only for asynchronous endpoints; {endpoint.name} is none.")
    if options.target_variant and endpoint.variants and options.target_variant not in endpoint.variants:
        raise UsageError(
            f"The endpoint {endpoint.name} has no variant {options.target_variant}.",
            remedy=f"It has {', '.join(endpoint.variants)}.",
        )
    output = _Output(arguments, len(payloads))
    for payload in payloads:
        start = time.monotonic()
        output.add(payload, real_time.invoke(aws, endpoint, payload, options), start)
    output.close()
    return ExitCode.OK


def _predict_asynchronously(
    arguments: argparse.Namespace,
    aws: Aws,
    endpoint: Endpoint,
    payloads: list[Payload],
    options: InvocationOptions,
) -> int:
    from gpuproof.backends.sagemaker.endpoints.invocation import asynchronous

    start = time.monotonic()
    submitted: list[Submitted] = []
    answered = 0
    try:
        for payload in payloads:
            asynchronous.submit(aws, endpoint, payload, options, submitted.append)
        if arguments.no_wait:
            _print_submitted(arguments, payloads, submitted)
            return ExitCode.OK
        output = _Output(arguments, len(payloads))
        for payload, item in zip(payloads, submitted, strict=True):
            try:
                prediction = asynchronous.wait(aws, endpoint, item, options)
            except asynchronous.RequestFailed:
                answered += 1
                raise
            answered += 1
            output.add(payload, prediction, start)
    except BaseException:
        _print_unanswered(submitted[answered:])
        raise
    output.close()
    return ExitCode.OK


def _print_unanswered(submitted: list[Submitted]) -> None:
    """What stays of requests that were not waited for: the model still answers them."""
    for item in submitted:
        print(
            f"gpuproof: the request is still in the queue: its result will be at {item.output}",
            file=sys.stderr,
        )
        if item.upload:
            print(f"gpuproof: its data was not deleted: {item.upload}", file=sys.stderr)


class _Output:
    """Prints or stores the responses.

    Args:
        arguments: of the command line.
        count: number of responses.
    """

    def __init__(self, arguments: argparse.Namespace, count: int) -> None:
        self._name = arguments.name
        self._json = arguments.format == "json"
        self._path = Path(arguments.output) if arguments.output else None
        self._several = count > 1
        self._predictions: list[dict[str, Any]] = []
        if self._path is not None and self._several:
            self._path.mkdir(parents=True, exist_ok=True)

    def add(self, payload: Payload, prediction: Prediction, start: float) -> None:
        """Take a response as it arrives.

        Args:
            start: when its request was sent, on the monotonic clock.
        """
        path = self._target(payload)
        if path is not None:
            with path.open("wb") as file:
                for piece in prediction.pieces:
                    file.write(piece)
            members: dict[str, Any] = {"file": str(path)}
            if not self._json:
                print(path)
        elif self._json:
            from gpuproof.backends.sagemaker.endpoints.invocation.prediction import body_members

            members = body_members(b"".join(prediction.pieces), prediction.content_type)
        else:
            members = {}
            _print(prediction)
        self._predictions.append(
            {
                "data": payload.name,
                "content_type": prediction.content_type,
                "variant": prediction.variant or None,
                "location": prediction.location or None,
                "seconds": round(time.monotonic() - start, 3),
                **members,
            }
        )

    def close(self) -> None:
        """Print the JSON document, if that was asked for."""
        if self._json:
            document = {
                "version": SCHEMA_VERSION,
                "name": self._name,
                "predictions": self._predictions,
            }
            print(json.dumps(document, indent=2))

    def _target(self, payload: Payload) -> Path | None:
        if self._path is None or not self._several:
            return self._path
        stem = Path(payload.name).name.replace(" ", "-")
        return self._path / f"{len(self._predictions) + 1}-{stem}.out"


def _print(prediction: Prediction) -> None:
    if sys.stdout.isatty() and not prediction.is_text:
        raise UsageError(
            f"The response is {prediction.content_type or 'binary data'}, which a terminal cannot show.",
            remedy="Write it to a file with -o FILE, or ask for another type with --accept application/json.",
        )
    sys.stdout.flush()
    last = b""
    for piece in _flushed(prediction.pieces):
        last = piece
    if prediction.is_text and not last.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


def _flushed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        yield piece


def _print_submitted(arguments: argparse.Namespace, payloads: list[Payload], submitted: list[Any]) -> None:
    if arguments.format != "json":
        for item in submitted:
            print(item.output)
        return
    items = [
        {
            "data": payload.name,
            "inference_id": item.id,
            "location": item.output,
            "failure": item.failure or None,
        }
        for payload, item in zip(payloads, submitted, strict=True)
    ]
    print(json.dumps({"version": SCHEMA_VERSION, "name": arguments.name, "submitted": items}, indent=2))


def _options(arguments: argparse.Namespace) -> InvocationOptions:
    from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions
    from gpuproof.units import Duration, UnitError

    timeout = None
    if arguments.timeout is not None:
        try:
            timeout = float(Duration.parse(arguments.timeout).seconds)
        except UnitError as error:
            raise UsageError(f"--timeout: {error}.") from error
        if timeout <= 0:
            raise UsageError("--timeout must be at least one second.")
    return InvocationOptions(
        accept=validate_content_type(arguments.accept),
        target_model=arguments.target_model,
        target_variant=arguments.target_variant,
        stream=arguments.stream,
        timeout=timeout,
    )
