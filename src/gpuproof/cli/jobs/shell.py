"""Open a shell on the instance of a run on EC2, through AWS Systems Manager. The instance needs no open port and no key.

It needs the AWS CLI and its Session Manager plugin on this machine. The job runs on; its files are in /opt/ml.
--jupyter opens the JupyterLab of a machine instead, and --forward any port, until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NoReturn, cast

from gpuproof.cli.arguments import RUN_HELP, add_command
from gpuproof.cli.jobs.sessions.programs import require_programs
from gpuproof.errors import ExitCode, GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.ec2.run import EC2Run
    from gpuproof.cli.arguments import Subparsers

_LAST_PORT = 65_535


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof shell` to the command line."""
    parser = add_command(commands, "shell", "open a shell on the instance of a run on EC2", __doc__)
    parser.add_argument("run_name", nargs="?", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--host", default="algo-1", metavar="HOST", help="the host (default: algo-1)")
    parser.add_argument("--region", help="AWS region to search (default: AWS_REGION)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--jupyter", action="store_true", help="open the machine's JupyterLab here")
    what.add_argument(
        "--forward",
        type=_port,
        metavar="PORT",
        help="open a port of the instance here, such as 6006 of TensorBoard",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof shell`: replaces this process with the AWS CLI, or keeps a tunnel open."""
    found = _find_run(arguments.run_name, arguments.region)
    require_programs("gpuproof shell")
    if arguments.jupyter or arguments.forward is not None:
        return _forward(found, arguments.forward, arguments.host)
    return _open_shell(found, arguments.host)


def _open_shell(found: EC2Run, host: str) -> NoReturn:
    command = found.shell_command(host)
    sys.stdout.flush()
    # Not a child: Ctrl-C and the size of the terminal concern the session alone.
    os.execvp(command[0], command)  # noqa: S606 - a shell has no part in it


def _forward(found: EC2Run, port: int | None, host: str) -> int:
    """Open a port of an instance here until Ctrl-C; that of its Jupyter server if None."""
    from gpuproof.cli.console import Console
    from gpuproof.cli.jobs.sessions.tunnel import Tunnel, local_port

    console = Console()
    record = found.record
    if record.has_ended:
        raise UsageError(
            f"{found.id} has ended ({record.status}): its instance is terminated.",
            remedy=f"gpuproof logs {found.cli_name}",
        )
    server = found.jupyter() if port is None else None
    if port is None and server is None:
        what = "is still starting" if record.document["kind"] == "machine" else "is no machine"
        raise GPUproofError(
            f"{found.id} has no Jupyter server: it {what}, or was started without --jupyter.",
            remedy=f"gpuproof logs -f {found.cli_name}",
        )
    remote = server.port if server is not None else cast("int", port)
    here = local_port(remote)
    with Tunnel(found.forward_command(remote, here, host), here, lambda text: console.label("note", text)):
        if server is not None:
            from gpuproof.cli.jobs.sessions.machine import jupyter_url  # imports what a shell does not need

            console.label("jupyter", jupyter_url(server, here))
        else:
            console.label("port", f"127.0.0.1:{here} is port {remote} of {found.id}")
        console.label("", "Ctrl-C closes the tunnel; the run continues")
        found.wait()
    console.label("run", f"{found.id} has ended")
    return ExitCode.OK


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port from 1 to {_LAST_PORT}")
    return int(text)


def _find_run(name: str | None, region: str | None) -> EC2Run:
    from gpuproof.backends import registry  # as in `cli.arguments`

    known = map(registry.load_backend, registry.BACKENDS)
    try:
        return cast(
            "EC2Run",
            registry.find_run_in([backend for backend in known if backend.has_sessions], name, region),
        )
    except RunNotFound:
        if name is not None:
            _reject_other_backend(name, region)
        raise


def _reject_other_backend(name: str, region: str | None) -> None:
    """Raise UsageError if a backend without shells has the run."""
    from gpuproof.backends import registry

    others = [backend for backend in registry.searched_backends(region=region) if not backend.has_sessions]
    try:
        found = registry.find_run_in(others, name, region) if others else None
    except GPUproofError:
        return
    if found is not None:
        where = registry.load_backend(found.backend).location
        raise UsageError(
            f"{found.id} runs {where}: gpuproof shell opens sessions on instances of EC2 only.",
            remedy=f"gpuproof logs -f {found.cli_name}",
        )
