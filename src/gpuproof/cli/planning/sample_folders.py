"""Reads `--input CHANNEL=FOLDER`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuproof.errors import UsageError


def sample_folders(words: Iterable[str]) -> dict[str, str]:
    """Folders by channel.

    Args:
        words: each is `CHANNEL=FOLDER`.

    Raises:
        UsageError: a word has another form, or there is no such folder.
    """
    found: dict[str, str] = {}
    for word in words:
        name, separator, folder = word.partition("=")
        if not name or not separator or not Path(folder).exists():
            raise UsageError(f"--input {word} is no CHANNEL=FOLDER that exists.")
        found[name] = folder
    return found
