"""Signatures with SSH keys, made and checked by `ssh-keygen -Y`.

The key may be a file, in `ssh-agent`, or on a security key; nothing but `ssh-keygen` (OpenSSH 8.2 or later) touches it.
Source: https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpuproof.errors import ExitCode, GPUproofError, UsageError

NAMESPACE = "gpuproof-receipt@gpuproof.github.io"
"""What a signature is for, so that none that was made for another purpose is taken for that of a receipt."""

_PROGRAM = "ssh-keygen"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_MAGIC = b"SSHSIG"


class NoSshKeygen(GPUproofError):
    """`ssh-keygen` is not installed."""

    exit_code = ExitCode.UNDECIDED


@dataclass(frozen=True)
class SignedBy:
    """What a signature itself says, which is not checked.

    Args:
        public_key: in base64, as in a `.pub` file.
        fingerprint: as `ssh-keygen -l` prints it.
    """

    public_key: str
    fingerprint: str
    namespace: str


def sign(content: bytes, key: Path) -> str:
    """The signature of some bytes, in the armored form of `ssh-keygen -Y sign`.

    Args:
        key: a private key, or a public key whose private half is in `ssh-agent`.

    Raises:
        NoSshKeygen: it is not installed.
        GPUproofError: the key cannot sign.
    """
    if not key.is_file():
        raise UsageError(f"The key {key} does not exist.", remedy="Create one: ssh-keygen -t ed25519")
    done = _run(["sign", "-f", str(key), "-n", NAMESPACE], content)
    if done.returncode or _BEGIN not in done.stdout:
        raise GPUproofError(f"ssh-keygen could not sign with {key}: {_last_line(done.stderr)}.")
    return done.stdout


def signed_by(signature: str) -> SignedBy:
    """What a signature says of its key.

    Raises:
        ValueError: it is not a signature of `ssh-keygen -Y sign`.
    """
    text = signature.strip()
    if not text.startswith(_BEGIN) or not text.endswith(_END):
        raise ValueError("not an SSH signature")
    content = base64.b64decode("".join(text[len(_BEGIN) : -len(_END)].split()), validate=True)
    if not content.startswith(_MAGIC):
        raise ValueError("not an SSH signature")
    try:
        public_key, rest = _string(content[len(_MAGIC) + 4 :])
        namespace, _ = _string(rest)
    except struct.error as error:
        raise ValueError("an SSH signature that is cut off") from error
    digest = base64.b64encode(hashlib.sha256(public_key).digest()).decode().rstrip("=")
    return SignedBy(
        base64.b64encode(public_key).decode(), f"SHA256:{digest}", namespace.decode(errors="replace")
    )


def fits(content: bytes, signature: str) -> bool:
    """Whether a signature was made for these bytes and for receipts, by whatever key.

    Raises:
        NoSshKeygen: it is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = _written(folder, "signature", signature)
        return not _run(["check-novalidate", "-n", NAMESPACE, "-s", file], content).returncode


def principals(signature: str, allowed_signers: Path) -> list[str]:
    """The principals of a file of allowed signers to which the signature's key belongs now; empty if there is none.

    Raises:
        NoSshKeygen: it is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = _written(folder, "signature", signature)
        done = _run(["find-principals", "-s", file, "-f", str(allowed_signers)], b"")
        return [] if done.returncode else done.stdout.splitlines()


def is_allowed(
    content: bytes, signature: str, allowed_signers: Path, principal: str, revoked: Path | None
) -> bool:
    """Whether the signature was made for these bytes and for receipts, by a key that a principal may sign with now.

    Args:
        revoked: a list of revoked keys (`ssh-keygen -k`), or of public keys, one in a line.

    Raises:
        NoSshKeygen: it is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = _written(folder, "signature", signature)
        words = ["verify", "-f", str(allowed_signers), "-I", principal, "-n", NAMESPACE, "-s", file]
        return not _run([*words, *(["-r", str(revoked)] if revoked else [])], content).returncode


def _run(words: list[str], content: bytes) -> subprocess.CompletedProcess[str]:
    program = shutil.which(_PROGRAM)
    if program is None:
        raise NoSshKeygen(
            "Signatures take ssh-keygen, which is not installed.",
            remedy="Install OpenSSH: apt install openssh-client, or dnf install openssh.",
        )
    done = subprocess.run([program, "-Y", *words], input=content, capture_output=True, check=False)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


def _written(folder: str, name: str, text: str) -> str:
    path = Path(folder, name)
    path.write_text(text, encoding="utf-8")
    return str(path)


def _string(content: bytes) -> tuple[bytes, bytes]:
    """The first length-prefixed string, and what follows it."""
    (length,) = struct.unpack_from(">I", content)
    if len(content) < 4 + length:
        raise struct.error
    return content[4 : 4 + length], content[4 + length :]


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip().rstrip(".") if lines else "it did not say why"
