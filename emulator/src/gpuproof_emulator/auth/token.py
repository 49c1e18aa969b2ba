"""The token of an emulator: the secret access key with which its user signs requests."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

ACCESS_KEY_ID = "emulator"
"""Access key id that belongs to the token; it shows in logs where it belongs."""

_FILE = "token"


def load_token(state: Path) -> str:
    """The token of the emulator with this state folder, created on first use; only the user can read its file.

    It stays the same across restarts, so that programs with the printed variables keep working.
    """
    path = state / _FILE
    try:
        if token := path.read_text(encoding="ascii").strip():
            path.chmod(0o600)
            return token
    except FileNotFoundError:
        pass
    token = secrets.token_hex(20)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token
