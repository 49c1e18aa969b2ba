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
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuproof.backends.sagemaker.endpoints.invocation.payload import Payload
    from gpuproof.backends.sagemaker.endpoints.invocation.prediction import Prediction
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
    from gpuproof.app.endpoints.predict import response_timeout, responses
    from gpuproof.app.session import aws_client
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import (
        STDIN,
        check_content_type,
        read_payload,
    )
    from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions

    check_content_type("--content-type", arguments.content_type)
    if arguments.data.count(STDIN) > 1:
        raise UsageError("--data - can be given once: standard input is read once.")
    if arguments.stream and arguments.format == "json":
        raise UsageError("--stream does not go together with --format json.")
    options = InvocationOptions(
        accept=check_content_type("--accept", arguments.accept),
        target_model=arguments.target_model,
        target_variant=arguments.target_variant,
        stream=arguments.stream,
        timeout=response_timeout("--timeout", arguments.timeout),
    )
    with sigterm_interrupts():
        payloads = [read_payload(data, arguments.content_type, sys.stdin.buffer) for data in arguments.data]
        queued = partial(_print_submitted, arguments, payloads) if arguments.no_wait else None
        output = _Output(arguments, len(payloads))
        client = partial(aws_client, arguments.region)
        with closing(responses(arguments.name, payloads, options, client, queued)) as sent:
            for payload, prediction, start in sent:
                output.add(payload, prediction, start)
        if queued is None:
            output.close()
    return ExitCode.OK


class _Output:
    """Prints or stores the responses."""

    def __init__(self, arguments: argparse.Namespace, count: int) -> None:
        self._name = arguments.name
        self._json = arguments.format == "json"
        self._path = Path(arguments.output) if arguments.output else None
        self._several = count > 1
        self._predictions: list[dict[str, Any]] = []

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
        self._path.mkdir(parents=True, exist_ok=True)
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
