"""`acceptance.json`: what an account has answered, without anything that names the account; and the recordings of the repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded")
"""Recordings of accounts of AWS, which pull requests add."""
VERSION = 1

# The first that matches counts. The number of an account is in ARNs, registries and names of buckets.
_PRIVATE = (
    ("arn", re.compile(r"\barn:aws[\w-]*:[^\s\"'`,]+")),
    ("bucket", re.compile(r"(?<=s3://)(?!<)[^/\s\"'`]+")),
    ("key", re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|ANPA)[A-Z0-9]{12,}\b")),
    ("address", re.compile(r"\bip-\d{1,3}(?:-\d{1,3}){3}[\w.-]*|\bec2-\d{1,3}(?:-\d{1,3}){3}[\w.-]*")),
    ("address", re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")),
    (
        "address",
        re.compile(
            r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}(?::[0-9a-f]{1,4})*(?![\w:])", re.IGNORECASE
        ),
    ),
    ("id", re.compile(r"\b(?:i|r|sir|vol|eni|vpc|subnet|sg|igw|rtb|eipalloc|snap)-[0-9a-f]{8,17}\b")),
    ("mail", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("request", re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")),
    ("home", re.compile(r"/(?:home|Users)/[^/\s\"']+")),
    ("account", re.compile(r"(?<!\d)\d{12}(?!\d)")),
)


def redact(value: Any, names: Iterable[str] = ()) -> Any:
    """A JSON value in which `<account>`, `<arn>`, `<bucket>` and so on replace what names an account or a person.

    Args:
        names: further texts to remove, such as the name of a bucket.
    """
    if isinstance(value, Mapping):
        return {redact(key, names): redact(child, names) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [redact(child, names) for child in value]
    if not isinstance(value, str):
        return value
    for name in sorted(filter(None, names), key=len, reverse=True):
        value = value.replace(name, "<name>")
    for word, pattern in _PRIVATE:
        value = pattern.sub(f"<{word}>", value)
    return value


def private_parts(text: str) -> list[str]:
    """What of a text names an account or a person; empty for a redacted one."""
    return [found[0] for _, pattern in _PRIVATE for found in pattern.finditer(text)]


def write(path: Path, document: Mapping[str, Any], names: Iterable[str]) -> None:
    """Write a recording, redacted.

    Raises:
        ValueError: it would still name the account; nothing is written.
    """
    text = json.dumps(redact({"version": VERSION, **document}, names), indent=2, sort_keys=True) + "\n"
    if left := private_parts(text):
        raise ValueError(f"{path.name} would name the account: {left}")
    path.write_text(text, encoding="utf-8")


def recordings(folder: Path = RECORDED) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The recordings in a folder, oldest name first."""
    for path in sorted(folder.glob("*.json")):
        yield path, json.loads(path.read_text(encoding="utf-8"))


def confirmed_facts(folder: Path = RECORDED) -> frozenset[str]:
    """The facts of which an account of AWS has shown the value."""
    return frozenset(
        fact
        for _, recording in recordings(folder)
        if recording["backend"] == "aws"
        for fact, value in recording["facts"].items()
        if value is not None
    )
