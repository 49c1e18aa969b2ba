"""Write the receipt of a run that has ended: what it was made of, what it did on its GPUs, and what it cost.

The receipt has the verdict, digests of code and inputs, the commit, the image, the instance and the cost. With --sign it is
signed with an SSH key (a key file, or the public key of one in ssh-agent), so that `gpuproof verify` shows who wrote it and
that it was not changed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_json_only_flags, add_run_argument, resolve_run
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof receipt` to the command line."""
    parser = add_command(commands, "receipt", "write the receipt of a run, signed with an SSH key", __doc__)
    add_run_argument(parser)
    parser.add_argument(
        "--sign", type=Path, metavar="KEY", help="sign it with this SSH key, such as ~/.ssh/id_ed25519"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there, not to the output")
    add_json_only_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof receipt`."""
    import sys

    from gpuproof.app.receipts import Receipt, receipt_of, sign_receipt

    receipt = Receipt(receipt_of(resolve_run(arguments, arguments.run_name)))
    if arguments.sign is not None:
        receipt = sign_receipt(receipt, arguments.sign.expanduser())
    if arguments.output is None:
        print(receipt.to_text())
    else:
        _write(arguments.output, receipt.to_text())
    for note in _unknown(receipt.document):
        print(f"gpuproof: {note}", file=sys.stderr)
    return ExitCode.OK


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}.") from error


def _unknown(document: Mapping[str, Any]) -> Iterator[str]:
    """What a reader of the receipt would miss."""
    if document["verdict"] is None:
        yield "the run has no verdict, so the receipt proves no use of a GPU"
    if document["code"] is None:
        yield "the run's record has no digest of its code: an older GPUproof submitted it, or it never started"
    elif document["code"]["git"] is None:
        yield "the source folder was in no git repository, so the receipt names no commit"
    elif document["code"]["git"]["dirty"]:
        yield "the source folder had changes that were not committed"
