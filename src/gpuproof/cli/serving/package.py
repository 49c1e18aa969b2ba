"""Build the model.tar.gz that SageMaker serves, and check that it serves.

The archive has the model at its top level and the handler in code/; the same content produces the same bytes. Then the
server is started with the unpacked archive, and a request is sent to it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.app.endpoints.model_source import reject_model_secrets
from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.cli.serving.model_argument import add_model_arguments, resolve_model
from gpuproof.cli.tempdir import temporary_folder
from gpuproof.errors import ExitCode, GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.agent.artifacts.archive_create import PackResult
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.serve.model.package import SampleRequest, ServeCheck

DEFAULT = "model.tar.gz"


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof package` to the command line."""
    parser = add_command(commands, "package", "build a model.tar.gz and check that it serves", __doc__)
    add_model_arguments(parser)
    parser.add_argument("--requirements", type=Path, metavar="FILE", help="requirements.txt for code/")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PATTERN",
        help="pack files although they look like secrets, such as code/.env",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(DEFAULT),
        metavar="FILE",
        help=f"the archive (default: {DEFAULT})",
    )
    parser.add_argument(
        "--request",
        type=Path,
        metavar="FILE",
        help="file with the body of a request that the model must answer",
    )
    parser.add_argument(
        "--content-type",
        metavar="TYPE",
        help="content type of --request (default: by its suffix, as in image.jpg)",
    )
    parser.add_argument(
        "--no-serve-check", action="store_true", help="only build the archive; do not start the server"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=600,
        metavar="SECONDS",
        help="timeout for loading the model (default: 600)",
    )
    parser.add_argument("--python", metavar="PATH", help="interpreter or environment with the framework")
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof package`."""
    from gpuproof.backends.sagemaker.endpoints.invocation.payload import check_content_type
    from gpuproof.serve.errors import LoadError  # not needed for --help

    if not 0 < arguments.timeout < float("inf"):
        raise UsageError("--timeout must be a number of seconds above zero, such as 600.")
    check_content_type("--content-type", arguments.content_type)
    with temporary_folder("gpuproof-package-") as scratch:
        try:
            return _package(arguments, scratch)
        except LoadError as error:
            raise GPUproofError(error.message, remedy=error.remedy) from error


def _package(arguments: argparse.Namespace, scratch: Path) -> int:
    from gpuproof.serve.model import package
    from gpuproof.serve.model.archive import describe, prepare

    asked = None if arguments.no_serve_check else _ask(arguments)
    folder = prepare(
        resolve_model(arguments, scratch), scratch / "in", arguments.code, arguments.requirements
    )
    reject_model_secrets(folder, arguments.model, arguments.include)
    packed = package.build(folder, arguments.output)
    checked = None
    if not arguments.no_serve_check:
        if arguments.format == "text" and sys.stderr.isatty():
            print("Starting the server with the archive …", file=sys.stderr)
        # Serve the archive itself, not the files that it was built from.
        unpacked = prepare(arguments.output, scratch / "out")
        checked = package.check(unpacked, _server(arguments), asked, startup_s=arguments.timeout)
    _say(arguments, describe(folder), packed, checked)
    return ExitCode.OK if checked is None or checked.ok else ExitCode.FAILED


def _ask(arguments: argparse.Namespace) -> SampleRequest | None:
    from gpuproof.serve.model.package import SampleRequest
    from gpuproof.serve.model.warmup import content_type_of

    path: Path | None = arguments.request
    if path is None:
        return None
    if not path.is_file():
        raise UsageError(f"--request {path} does not exist.", remedy="Use a file with the body of a request.")
    kind = arguments.content_type or content_type_of(path)
    return SampleRequest(path.read_bytes(), kind)


def _server(arguments: argparse.Namespace) -> list[str]:
    from gpuproof.backends.agent_job.archive import agent_file
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.settings import cache_dir

    return [find_interpreter(arguments.python), str(agent_file(cache_dir())), "serve"]


def _say(arguments: argparse.Namespace, what: str, packed: PackResult, checked: ServeCheck | None) -> None:
    from gpuproof.util.humanize import format_bytes

    archive: Path = arguments.output
    if arguments.format == "json":
        told = {
            "version": 1,
            "archive": str(archive),
            "content": what,
            "files": packed.files,
            "bytes": packed.bytes,
            "sha256": packed.sha256,
            "notes": packed.notes,
            "serves": None if checked is None else vars(checked),
        }
        print(json.dumps(told, indent=2))
        return
    print(
        f"{archive}: {what}; {packed.files} files, {format_bytes(archive.stat().st_size)}, sha256 {packed.sha256[:12]}…"
    )
    for note in packed.notes:
        print(f"  note: {note}")
    if checked is None:
        return
    if checked.ready_s is not None:
        print(f"The model serves: healthy after {checked.ready_s:.1f} s.")
    if checked.status is not None and checked.seconds is not None and checked.status < 300:
        sent = f"for {checked.request} " if checked.request else ""
        answer = " ".join(checked.answer.split())
        shown = answer if len(answer) <= 60 else f"{answer[:60]}…"
        print(f"It responded {sent}in {checked.seconds * 1000:.1f} ms: {checked.answer_type} {shown}")
    if checked.message:
        print(checked.message if checked.ok else f"The model does not serve: {checked.message}")
    if not checked.ok:
        if checked.status is not None:
            print(f"  {checked.answer}")
        for line in checked.log.splitlines():
            print(f"  {line}")
