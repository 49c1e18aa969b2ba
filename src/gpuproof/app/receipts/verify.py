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
from gpuproof.app.receipts.document import receipt_of, verdict_part
from gpuproof.errors import ExitCode, UsageError
from gpuproof.jobs.source.digests import FilesDigest, tree_digest
from gpuproof.jobs.source.tree import SourceTree, collect

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
        """Raise UsageError for a file that cannot be read, and for a private key."""
        for path in (self.allowed_signers, self.key, self.revoked):
            if path is not None and b"PRIVATE KEY" in _read(path):
                raise UsageError(f"{path} is a private key.", remedy=f"Name the public key: {path}.pub")

    @property
    def are_given(self) -> bool:
        """Whether a signature is required."""
        return self.allowed_signers is not None or self.key is not None


@dataclass(frozen=True)
class Check:
    """One comparison.

    Args:
        name: `signature`, `run`, `verdict`, `cost` or `code`.
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
        # The word before a key is its type; what follows is a comment.
        place = words.index(signer.public_key)
        allowed.write_text(f"{_PRINCIPAL} {words[place - 1]} {words[place]}\n", encoding="utf-8")
        if ssh_signature.is_allowed(content, signature, allowed, _PRINCIPAL, revoked):
            return Check("signature", OK, f"signed by {signer.fingerprint}")
    return Check("signature", FAILED, f"{signer.fingerprint} is revoked")


def _verdict_file(receipt: Receipt, folder: Path) -> Check:
    path = RunPaths(folder).verdict
    try:
        verdict = parse_strictly(_read(path))
    except ValueError as error:
        return Check("verdict", FAILED, f"{path} is not a verdict: {error}")
    if not isinstance(verdict, dict):
        return Check("verdict", FAILED, f"{path} is not a verdict")
    return _verdict(receipt, verdict_part(verdict))  # pyright: ignore[reportUnknownArgumentType]


def _verdict(receipt: Receipt, now: Mapping[str, Any] | None) -> Check:
    known = receipt.document.get("verdict")
    if now is None and known is None:
        return Check("verdict", OK, "neither has a verdict")
    if now is None or not isinstance(known, dict) or known.get("sha256") != now["sha256"]:  # pyright: ignore[reportUnknownMemberType]
        return Check("verdict", FAILED, "verdict.json is not the one of the receipt")
    if not _is_part(known, now):
        return Check("verdict", FAILED, "the receipt says something else than its verdict.json")
    return Check("verdict", OK, "verdict.json is the one of the receipt")


def _run(receipt: Receipt, run: Run) -> Iterator[Check]:
    now, given = receipt_of(run), receipt.document
    differing = [name for name in _OF_RUN if name not in given or not _is_part(given[name], now[name])]
    if differing:
        yield Check("run", FAILED, f"{run.id} differs from the receipt in: {', '.join(differing)}")
    else:
        yield Check("run", OK, f"{run.id} is the run of the receipt")
    yield _verdict(receipt, now["verdict"])
    if given.get("cost") != now["cost"]:
        yield Check("cost", UNDECIDED, "the cost is another one by the list prices that are known now")


def _is_part(given: Any, now: Any) -> bool:
    """Whether all that a receipt says is so now; another version of GPUproof may have written fewer keys."""
    if isinstance(given, dict) and isinstance(now, dict):
        known: dict[str, Any] = given
        return bool(known) == bool(now) and all(
            name in now and _is_part(value, now[name]) for name, value in known.items()
        )
    if isinstance(given, list | tuple) and isinstance(now, list | tuple):
        items: list[Any] = [*given]  # pyright: ignore[reportUnknownArgumentType]
        return len(items) == len(now) and all(map(_is_part, items, now))  # pyright: ignore[reportUnknownArgumentType]
    return type(given) is type(now) and given == now


def _source(receipt: Receipt, folder: Path) -> Check:
    code: Any = receipt.document.get("code")
    if code is None or (isinstance(code, dict) and "sha256" not in code):
        return Check("code", UNDECIDED, "the receipt has no digest of the code")
    if not folder.is_dir():
        raise UsageError(f"The folder {folder} does not exist.")
    try:
        expected = FilesDigest(code["sha256"], code["files"], code["bytes"])
        tree = _selected(folder.resolve(), **code["selection"])
    except (TypeError, ValueError, KeyError):
        return Check("code", FAILED, "the receipt does not say which files were sent")
    found = tree_digest(tree)
    if found == expected:
        return Check("code", OK, f"{folder} has the code of the receipt")
    text = f"{folder} has other code: {found.files} files, {found.bytes} bytes; the receipt's has {expected.files} files, {expected.bytes} bytes"
    return Check("code", FAILED, text)


def _selected(
    root: Path, entry_point: str, include: list[str], exclude: list[str], *, respect_gitignore: bool
) -> SourceTree:
    """The files of a folder that the job would send.

    Raises:
        ValueError: a name is not one below the folder.
    """
    for name in (entry_point, *include, *exclude):
        if not isinstance(name, str) or "\0" in name or name.startswith("/") or ".." in Path(name).parts:
            raise ValueError(name)
    return collect(
        root,
        entry_point,
        exclude=[root / name for name in exclude],
        include=include,
        respect_gitignore=bool(respect_gitignore),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from error
