"""Emulate AWS on this machine; SageMaker jobs really run, as processes with a private /opt/ml instead of containers.
S3, IAM, STS, CloudWatch Logs, EC2 and other services come from moto. No account, no Docker, no cost.

Paste the export lines that it prints into another terminal; boto3, the AWS CLI, the SageMaker SDKs and GPUproof then
use it. The secret access key is the emulator's token: other users of the machine and web pages cannot use the emulator.
Its state survives a restart.

Faults can be injected from the start, or while it runs (POST URL/_gpuproof/faults, Authorization: Bearer TOKEN):
  gpuproof emulator --fault throttling,operation=CreateTrainingJob,count=3
  gpuproof emulator --fault 'capacity,instance=ml.p5.*' --quota 'ml.g5.xlarge for training job usage=0'

With --boot-instances, EC2 instances boot their user data on simulated machines, as root on Linux.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof_emulator.faults.fault import KINDS, LIMITS, Fault, InvalidFault
from gpuproof_emulator.server import DEFAULT_PORT

if TYPE_CHECKING:
    from gpuproof_emulator.options import Options


def main(argv: list[str] | None = None) -> int:
    """Entry point of `gpuproof-emulator`, which is `gpuproof emulator` without the rest of the command line."""
    parser = argparse.ArgumentParser(
        prog="gpuproof-emulator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_arguments(parser)
    try:
        return run(parser.parse_args(argv))
    except GPUproofError as error:
        for line in filter(None, (f"gpuproof-emulator: {error.message}", error.remedy)):
            print(line, file=sys.stderr)
        return error.exit_code


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the emulator's arguments and its `run` to a parser."""
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help=f"port on loopback; 0 for a free one (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--state", metavar="FOLDER", help="folder for the emulator's state (default: next to the runs)"
    )
    parser.add_argument("--fresh", action="store_true", help="start with an empty state")
    parser.add_argument(
        "--no-role",
        action="store_true",
        help="create no roles and no instance profile: an account as AWS hands it over, for `gpuproof setup`",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="[FRAMEWORK=]PATH",
        help="the interpreter for containers, or for images of one framework (tensorflow, pytorch); may be repeated",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable for every container; may be repeated",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[,LIMIT=VALUE…]",
        help=f"inject a fault: {', '.join(KINDS)}; limits: {', '.join(LIMITS)}; may be repeated",
    )
    parser.add_argument(
        "--quota",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a service quota, by name or code; may be repeated",
    )
    parser.add_argument(
        "--enabled-region",
        action="append",
        default=[],
        metavar="REGION",
        help="a region that is enabled for the account (default: all of them); may be repeated",
    )
    parser.add_argument(
        "--enforce-iam",
        action="store_true",
        help="reject requests of IAM users and roles that their policies do not allow; the printed keys may do everything",
    )
    parser.add_argument(
        "--boot-instances",
        action="store_true",
        help="boot the user data of EC2 instances, as root on Linux; otherwise they are only recorded",
    )
    parser.add_argument(
        "--stop-grace",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="time between SIGTERM and SIGKILL (default: 120)",
    )
    parser.add_argument(
        "--hold",
        type=float,
        default=20.0,
        metavar="SECONDS",
        help="how long a Describe call of an SDK is held for the job to end (default: 20; 0: not at all)",
    )
    parser.add_argument(
        "--lifecycle-limit",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="time limit of a notebook instance's lifecycle script (default: 300)",
    )
    parser.add_argument(
        "--max-hosts",
        type=int,
        default=8,
        metavar="N",
        help="maximum number of instances of one job (default: 8)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the emulator until Ctrl-C or SIGTERM."""
    from gpuproof_emulator.bootstrap import ROLE_ARN  # --help starts faster without it
    from gpuproof_emulator.server import serve

    def announce(environment: Mapping[str, str]) -> None:
        for name, value in environment.items():
            print(f"export {name}={shlex.quote(value)}")
        if not arguments.no_role:
            print(f"# Execution role for jobs: {ROLE_ARN}")
        print("# Ctrl-C stops the emulator and all of its jobs.", flush=True)

    serve(
        _options(arguments),
        announce,
        faults=_faults(arguments.fault),
        quotas=_quotas(arguments.quota),
        fresh=arguments.fresh,
    )
    print("gpuproof: the emulator has stopped.", file=sys.stderr)
    return ExitCode.OK


def _options(arguments: argparse.Namespace) -> Options:
    from gpuproof.backends.interpreter import find_interpreter
    from gpuproof.settings import state_dir
    from gpuproof_emulator.options import Options

    pythons = dict(_pair("--python", text) for text in arguments.python if "=" in text)
    default = next((text for text in arguments.python if "=" not in text), None)
    return Options(
        state=Path(arguments.state).absolute() if arguments.state else state_dir() / "emulator",
        port=arguments.port,
        pythons={framework: find_interpreter(path) for framework, path in pythons.items()},
        python=find_interpreter(default),
        environment=dict(_pair("--env", text) for text in arguments.env),
        stop_grace=arguments.stop_grace,
        hold=arguments.hold,
        max_hosts=arguments.max_hosts,
        lifecycle_seconds=arguments.lifecycle_limit,
        role=not arguments.no_role,
        boot_instances=arguments.boot_instances,
        enforce_iam=arguments.enforce_iam,
        regions=frozenset(arguments.enabled_region),
    )


def _port(text: str) -> int:
    """Parses a port; werkzeug would silently use another one for a number that is too large."""
    if text.isdecimal() and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a port: use 0 to 65535")


def _faults(texts: list[str]) -> list[Fault]:
    try:
        return [Fault.parse(text) for text in texts]
    except InvalidFault as error:
        raise UsageError(f"--fault: {error}", remedy="gpuproof emulator --help shows examples.") from error


def _quotas(texts: list[str]) -> dict[str, float]:
    from gpuproof_emulator.quotas import UnknownQuota, reject_unknown_quotas

    pairs = (_pair("--quota", text) for text in texts)
    try:
        values = {name: float(value) for name, value in pairs}
        reject_unknown_quotas(values)
    except UnknownQuota as error:
        raise UsageError(
            f"--quota: {error}", remedy="gpuproof gpus show TYPE shows the quotas of a type."
        ) from error
    except ValueError as error:
        raise UsageError(f"--quota takes NAME=NUMBER: {error}.") from error
    return values


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{flag} takes NAME=VALUE, not {text}.")
    return name, value
