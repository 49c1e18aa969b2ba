"""Write the agent file, with which any image that has Python 3.9 and your framework serves models as SageMaker expects.

Standard output has the lines for the Dockerfile: gpuproof agent >> Dockerfile. With --watch, they are those of an image whose
command is watched, and its GPUs judged. Build the agent file again after an upgrade of GPUproof.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag
from gpuproof.errors import ExitCode, UsageError
from gpuproof.version import __version__

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers

_NAME = "gpuproof-agent.pyz"
_PLACE = f"/opt/{_NAME}"


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof agent` to the command line."""
    parser = add_command(
        commands,
        "agent",
        "write the agent file, which serves models or watches a command in a container",
        __doc__,
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(_NAME),
        metavar="FILE",
        help=f"the file to write (default: {_NAME})",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="print the lines of an image whose command is watched: gpuproof watch",
    )
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof agent`."""
    from gpuproof.backends.agent_job.archive import build_agent  # not needed for --help
    from gpuproof.util.humanize import format_bytes

    output: Path = arguments.output
    if output.is_dir():
        output = output / _NAME
    try:
        build_agent(output)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}.", remedy="Use another -o FILE."
        ) from error
    lines = dockerfile_lines(output, watch=arguments.watch)
    size = output.stat().st_size
    if arguments.format == "json":
        digest = hashlib.sha256(output.read_bytes()).hexdigest()
        found = {"version": 1, "file": str(output), "bytes": size, "sha256": digest, "dockerfile": lines}
        print(json.dumps(found, indent=2))
        return ExitCode.OK
    print(f"{output}: agent of GPUproof {__version__}, {format_bytes(size)}", file=sys.stderr)
    print("\n".join(lines))
    return ExitCode.OK


def dockerfile_lines(file: Path, *, watch: bool = False) -> list[str]:
    """The lines that put the agent file into an image and serve `/opt/ml/model`, or watch the image's command.

    Args:
        file: the agent file; relative to the build context, unless it is an absolute path.
    """
    # Images without a framework of their own, such as nvidia/cuda, have no `python`.
    entry = ["python3", _PLACE, "watch", "--"] if watch else ["python", _PLACE, "serve"]
    source = file.name if file.is_absolute() else file.as_posix()
    return [
        f"COPY {json.dumps([source, _PLACE])}" if " " in source else f"COPY {source} {_PLACE}",
        f"ENTRYPOINT {json.dumps(entry)}",
    ]
