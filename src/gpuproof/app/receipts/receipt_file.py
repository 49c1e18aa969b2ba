"""The file of a receipt: the receipt itself, and its signature if it has one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.app.receipts.canonical import canonical_json, parse_strictly
from gpuproof.app.receipts.ssh_signature import NAMESPACE, sign
from gpuproof.errors import ExitCode, GPUproofError, UsageError

VERSION = 1
"""Of the file and of the receipt in it."""
_KEYS = {"version", "receipt", "signature"}


class NotAReceipt(GPUproofError):
    """The file is not a receipt, or not as it was written."""


class NewerReceipt(GPUproofError):
    """The receipt is of a newer version of GPUproof."""

    exit_code = ExitCode.UNDECIDED


@dataclass(frozen=True)
class Receipt:
    """A receipt and its signature.

    Args:
        document: what is signed; see `document.receipt_of`.
        signature: of its canonical JSON, as `ssh-keygen -Y sign` prints it; `None` if it is unsigned.
    """

    document: Mapping[str, Any]
    signature: str | None = None

    @property
    def content(self) -> bytes:
        """The bytes that are signed."""
        return canonical_json(self.document)

    def to_text(self) -> str:
        """The file; its numbers are written as in the bytes that are signed, so that `jq` can reproduce these."""
        document = _with_plain_numbers(self.document)
        signature = (
            None
            if self.signature is None
            else {"namespace": NAMESPACE, "sshsig": self.signature.splitlines()}
        )
        return json.dumps(
            {"version": VERSION, "receipt": document, "signature": signature},
            indent=2,
            ensure_ascii=False,
        )


def sign_receipt(receipt: Receipt, key: Path) -> Receipt:
    """The receipt with a signature by this key; see `ssh_signature.sign`."""
    return Receipt(receipt.document, sign(receipt.content, key))


def read_receipt(path: Path) -> Receipt:
    """Read the file of a receipt.

    Raises:
        UsageError: it cannot be read.
        NotAReceipt: it is not the file of a receipt.
        NewerReceipt: it is of a newer version.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    try:
        return _receipt(parse_strictly(content), path)
    except ValueError as error:
        raise NotAReceipt(f"{path} is not a receipt: {error}.") from error


def _receipt(value: Any, path: Path) -> Receipt:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    file: dict[str, Any] = value
    version = file.get("version")
    if isinstance(version, int) and version > VERSION:
        raise NewerReceipt(
            f"{path} is a receipt of version {version}; this GPUproof reads {VERSION}.",
            remedy="pip install --upgrade gpuproof",
        )
    if version != VERSION or isinstance(version, bool):
        raise ValueError(f"its version is {version!r}")
    if unknown := sorted(file.keys() - _KEYS):
        raise ValueError(f"it has the unknown key {unknown[0]!r}, which no signature covers")
    document = file.get("receipt")
    if not isinstance(document, dict):
        raise ValueError("it has no receipt")
    if document.get("version") != VERSION or isinstance(document["version"], bool):  # pyright: ignore[reportUnknownMemberType]
        raise ValueError("its receipt has another version than the file")
    receipt = Receipt(document, _signature(file.get("signature")))  # pyright: ignore[reportUnknownArgumentType]
    receipt.content  # noqa: B018 - raises ValueError for what has no canonical form
    return receipt


def _signature(value: Any) -> str | None:
    if value is None:
        return None
    lines = value.get("sshsig") if isinstance(value, dict) else None
    if not isinstance(lines, list) or value.keys() != {"namespace", "sshsig"}:
        raise ValueError("its signature has another form")
    if value["namespace"] != NAMESPACE:
        raise ValueError(f"its signature is for {value['namespace']!r}, not for receipts")
    return "".join(f"{line}\n" for line in lines)


def _with_plain_numbers(value: Any) -> Any:
    """The value with 60 for 60.0, as canonical JSON has it."""
    if isinstance(value, Mapping):
        known: Mapping[str, Any] = value
        return {name: _with_plain_numbers(item) for name, item in known.items()}
    if isinstance(value, list | tuple):
        items: list[Any] = [*value]  # pyright: ignore[reportUnknownArgumentType]
        return [_with_plain_numbers(item) for item in items]
    return json.loads(canonical_json(value)) if isinstance(value, float) else value
