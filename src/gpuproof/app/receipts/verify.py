"""Compares a receipt with its signature, with the run that it is of, and with the source that the run was sent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent.paths import RunPaths
from gpuproof.app.receipts import ssh_signature
from gpuproof.app.receipts.canonical import parse_strictly
from gpuproof.app.receipts.document import receipt_of, verdict_digest
from gpuproof.errors import ExitCode, UsageError
from gpuproof.jobs.source.digests import tree_digest
from gpuproof.jobs.source.tree import collect

if TYPE_CHECKING:
    from gpuproof.app.receipts.receipt_file import Receipt
    from gpuproof.backends.base import Run

OK, FAILED, UNDECIDED, UNSIGNED = "ok", "failed", "undecided", "unsigned"

_OF_RUN = ("run", "machine", "code", "inputs", "image")
"""Parts of a receipt that are the same whenever it is made; the cost follows from the catalogue's prices."""
_PRINCIPAL = "key"


@dataclass(frozen=True)
class Signers:
    """Who may have signed a receipt.

    Args:
        allowed_signers: a file of `ssh-keygen`'s form ALLOWED SIGNERS.
        key: the public key that must have signed it, instead of such a file.
        revoked: a list of revoked keys.
    """

    allowed_signers: Path | None = None
    key: Path | None = None
    revoked: Path | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a file that cannot be read."""
        for path in (self.allowed_signers, self.key, self.revoked):
            if path is not None:
                _read(path)

    @property
    def are_given(self) -> bool:
        """Whether a signature is required."""
        return self.allowed_signers is not None or self.key is not None


@dataclass(frozen=True)
class Check:
    """One comparison.

    Args:
        name: `signature`, `run`, `verdict` or `code`.
        result: `ok`, `failed`, `undecided` or `unsigned`.
    """

    name: str
    result: str
    text: str


@dataclass(frozen=True)
class Verification:
    """The comparisons of a receipt."""

    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> ExitCode:
        """0 if all that was compared fits, 1 if anything does not, 3 if that could not be decided.

        An unsigned receipt proves nothing by itself: it verifies only if something else was compared.
        """
        results = [check.result for check in self.checks]
        if FAILED in results:
            return ExitCode.FAILED
        return ExitCode.OK if OK in results and UNDECIDED not in results else ExitCode.UNDECIDED


def verify_receipt(
    receipt: Receipt, signers: Signers, *, run: Run | Path | None = None, source: Path | None = None
) -> Verification:
    """Compare a receipt with what is given.

    Args:
        run: the run that it is of, or a folder with its `verdict.json`.
        source: a folder with the source that the run was sent, such as a checkout of its commit.

    Raises:
        UsageError: a file cannot be read.
        NoSshKeygen: the signature cannot be checked.
    """
    checks = [_signature(receipt, signers)]
    if isinstance(run, Path):
        checks.append(_verdict_file(receipt, run))
    elif run is not None:
        checks += _run(receipt, run)
    if source is not None:
        checks.append(_source(receipt, source))
    return Verification(tuple(checks))


def _signature(receipt: Receipt, signers: Signers) -> Check:
    if receipt.signature is None:
        if signers.are_given:
            return Check("signature", FAILED, "it is unsigned")
        return Check("signature", UNSIGNED, "nothing says who wrote it, or that it was not changed")
    try:
        signer = ssh_signature.signed_by(receipt.signature)
    except ValueError as error:
        return Check("signature", FAILED, f"the signature cannot be read: {error}")
    content, signature = receipt.content, receipt.signature
    if not ssh_signature.fits(content, signature):
        return Check("signature", FAILED, "the receipt was changed after it was signed")
    if signers.allowed_signers is not None:
        return _by_allowed_signers(content, signature, signer, signers.allowed_signers, signers.revoked)
    if signers.key is not None:
        return _by_key(content, signature, signer, signers.key, signers.revoked)
    text = (
        f"signed by the unknown key {signer.fingerprint}: name whom you trust with --allowed-signers or --key"
    )
    return Check("signature", UNDECIDED, text)


def _by_allowed_signers(
    content: bytes, signature: str, signer: ssh_signature.SignedBy, allowed: Path, revoked: Path | None
) -> Check:
    found = ssh_signature.principals(signature, allowed)
    for principal in found:
        if ssh_signature.is_allowed(content, signature, allowed, principal, revoked):
            return Check("signature", OK, f"signed by {principal} with {signer.fingerprint}")
    if found or signer.public_key in _read(allowed).decode(errors="replace"):
        text = f"{signer.fingerprint} may not sign receipts now: it is expired, revoked, or allowed for other purposes"
        return Check("signature", FAILED, text)
    return Check("signature", UNDECIDED, f"signed by {signer.fingerprint}, which is not in {allowed}")


def _by_key(
    content: bytes, signature: str, signer: ssh_signature.SignedBy, key: Path, revoked: Path | None
) -> Check:
    words = _read(key).decode(errors="replace").split()
    if signer.public_key not in words:
        return Check("signature", FAILED, f"signed by another key, {signer.fingerprint}")
    with tempfile.TemporaryDirectory() as folder:
        allowed = Path(folder, "allowed_signers")
        # A type and a key; what follows in a public key is a comment.
        allowed.write_text(f"{_PRINCIPAL} {' '.join(words[:2])}\n", encoding="utf-8")
        if ssh_signature.is_allowed(content, signature, allowed, _PRINCIPAL, revoked):
            return Check("signature", OK, f"signed by {signer.fingerprint}")
    return Check("signature", FAILED, f"{signer.fingerprint} is revoked")


def _verdict_file(receipt: Receipt, folder: Path) -> Check:
    path = RunPaths(folder).verdict
    try:
        verdict = parse_strictly(_read(path))
    except ValueError as error:
        return Check("verdict", FAILED, f"{path} is not a verdict: {error}")
    return _verdict(receipt, verdict)


def _verdict(receipt: Receipt, verdict: Mapping[str, Any] | None) -> Check:
    known = receipt.document.get("verdict")
    expected = known.get("sha256") if isinstance(known, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    found = None if verdict is None else verdict_digest(verdict)
    if found != expected:
        return Check("verdict", FAILED, "verdict.json is not the one of the receipt")
    return Check(
        "verdict", OK, "verdict.json is the one of the receipt" if found else "neither has a verdict"
    )


def _run(receipt: Receipt, run: Run) -> Iterator[Check]:
    now = receipt_of(run)
    differing = [name for name in _OF_RUN if now[name] != receipt.document.get(name)]
    if differing:
        text = f"{run.id} differs from the receipt in: {', '.join(differing)}"
        yield Check("run", FAILED, text)
    else:
        yield Check("run", OK, f"{run.id} is the run of the receipt")
    yield _verdict(receipt, run.verdict)


def _source(receipt: Receipt, folder: Path) -> Check:
    code = receipt.document.get("code")
    if not isinstance(code, dict) or not code.get("sha256"):  # pyright: ignore[reportUnknownMemberType]
        return Check("code", UNDECIDED, "the receipt has no digest of the code")
    if not folder.is_dir():
        raise UsageError(f"The folder {folder} does not exist.")
    selection: Mapping[str, Any] = code.get("selection") or {}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    root = folder.resolve()
    tree = collect(
        root,
        selection.get("entry_point", ""),
        exclude=[root / name for name in selection.get("exclude", ())],
        include=selection.get("include", ()),
        respect_gitignore=selection.get("respect_gitignore", True),
    )
    found = tree_digest(tree)
    if found.sha256 == code["sha256"]:
        return Check("code", OK, f"{folder} has the code of the receipt")
    text = f"{folder} has other code: {found.files} files, {found.bytes} bytes; the receipt's has {code['files']} files, {code['bytes']} bytes"
    return Check("code", FAILED, text)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
