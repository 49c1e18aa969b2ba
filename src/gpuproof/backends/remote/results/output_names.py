"""Names of a processing job's inputs and outputs where their keys in the job are no valid names."""

from __future__ import annotations

import re

RESERVED = "gpuproof"
"""The name of GPUproof's own input and output."""

WORK_FOLDER = "work"
"""The name of a machine's work folder among its results."""


def input_name(key: str, number: int) -> str:
    """The name of an input: its key in the job, or a name with its number if the key is not a valid name."""
    return _named(key, "input", number)


def output_name(key: str, number: int) -> str:
    """The name of an output: its key in the job, or a name with its number if the key is not a valid name."""
    return _named(key, "output", number)


def _named(key: str, word: str, number: int) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", key) and key != RESERVED else f"{word}-{number}"
