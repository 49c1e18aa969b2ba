"""Verify a receipt: who signed it, that it was not changed, and that it matches its run or its source.

Exit codes: 0 everything that was compared fits, 1 something does not, 3 that could not be decided, as of a key that is not
known here. An unsigned receipt verifies only with --run or --source.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_backend_flags, add_command, add_format_flag, resolve_run

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof verify` to the command line."""
    parser = add_command(commands, "verify", "verify a receipt: its signature, its run, its source", __doc__)
    parser.add_argument("receipt", type=Path, metavar="RECEIPT", help="the file of the receipt")
    signers = parser.add_mutually_exclusive_group()
    signers.add_argument(
        "--allowed-signers",
        type=Path,
        metavar="FILE",
        help="the keys that may sign, and whose they are (ALLOWED SIGNERS in ssh-keygen(1))",
    )
    signers.add_argument("--key", type=Path, metavar="PUB", help="the public key that must have signed it")
    parser.add_argument(
        "--revoked", type=Path, metavar="FILE", help="revoked keys (KEY REVOCATION LISTS in ssh-keygen(1))"
    )
    parser.add_argument(
        "--run",
        dest="run_name",
        metavar="RUN",
        help="compare it with this run, or with a folder of `gpuproof pull`",
    )
    parser.add_argument(
        "--source",
        type=Path,
        metavar="FOLDER",
        help="compare it with this source, such as a checkout of its commit",
    )
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof verify`."""
    import sys

    from gpuproof.app.receipts import Signers, read_receipt, verify_receipt
    from gpuproof.cli.console import Console

    receipt = read_receipt(arguments.receipt)
    signers = Signers(arguments.allowed_signers, arguments.key, arguments.revoked)
    found = verify_receipt(receipt, signers, run=_run(arguments), source=arguments.source)
    if arguments.format == "json":
        document = {
            "version": 1,
            "exit_code": int(found.exit_code),
            "checks": [
                {"check": check.name, "result": check.result, "text": check.text} for check in found.checks
            ],
        }
        print(json.dumps(document, indent=2))
        return found.exit_code
    console = Console(own=sys.stdout)
    for check in found.checks:
        console.label(check.name, f"{check.result}: {check.text}")
    return found.exit_code


def _run(arguments: argparse.Namespace) -> Run | Path | None:
    if arguments.run_name is None:
        return None
    folder = Path(arguments.run_name)
    return folder if folder.is_dir() else resolve_run(arguments, arguments.run_name)
