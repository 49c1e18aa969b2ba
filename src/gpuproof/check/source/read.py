"""From paths to units: each file is read by what its name and its first lines say that it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuproof.check.source.decode import Unreadable, decode, read_bytes
from gpuproof.check.source.span import Unit, UnitKind

MAX_REQUEST_BYTES = 1_000_000
"""Bytes; a larger file with an instance type in it is a price list."""
JOB_FILE_NAMES = ("gpuproof.yaml", "gpuproof.yml")
"""`gpuproof.jobs.load.FILE_NAMES`, said again because that room imports pydantic, 60 ms that a script need not wait."""


@dataclass(frozen=True)
class UnreadableFile:
    """A file that could not be read as what it should be.

    Args:
        path: as the user wrote it.
        reason: why, as the rest of a sentence.
        line: where that shows, from 1.
        broken: whether Python could not read it either.
    """

    path: str
    reason: str
    line: int = 1
    broken: bool = False


def read_units(paths: Iterable[str]) -> tuple[list[Unit], list[UnreadableFile]]:
    """The units of files, and the files that cannot be read."""
    units: list[Unit] = []
    failures: list[UnreadableFile] = []
    for path in paths:
        try:
            units += read_file(path)
        except Unreadable as error:
            failures.append(UnreadableFile(path, error.reason, error.line, error.broken))
    return units, failures


def read_file(path: str) -> list[Unit]:
    """The units of one file; none where it holds nothing that is checked.

    Raises:
        Unreadable: it cannot be read as source.
    """
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower()
    if suffix == "ipynb":
        from gpuproof.check.source import notebook  # json and re only where a notebook is

        return notebook.read(path, read_bytes(Path(path)))
    if suffix in ("yaml", "yml", "json", "template", "tf"):
        return _template(path, name, suffix)
    if suffix == "md":
        from gpuproof.check.source import markdown

        return markdown.read(path, decode(read_bytes(Path(path)))[0])
    if suffix == "txt":
        return [Unit(path, decode(read_bytes(Path(path)))[0], "requirements")]
    if suffix == "toml":
        return []
    text, encoding = decode(read_bytes(Path(path)))
    return [Unit(path, text, "python", encoding=encoding)]


def _template(path: str, name: str, suffix: str) -> list[Unit]:
    if name in JOB_FILE_NAMES:
        return [Unit(path, decode(read_bytes(Path(path)))[0], "gpuproof")]
    try:
        raw = read_bytes(Path(path))
    except Unreadable:
        # Any .json or .yaml may be data of any size, and none of our concern.
        return []
    kind = _kind_of_template(raw, is_terraform=suffix == "tf")
    return [Unit(path, decode(raw)[0], kind)] if kind is not None else []


def _kind_of_template(raw: bytes, *, is_terraform: bool) -> UnitKind | None:
    if is_terraform:
        words = (b"aws_sagemaker_", b"aws_instance", b"aws_iam_", b"aws_launch_template")
        return "terraform" if any(word in raw for word in words) else None
    if b"AWS::" in raw:
        return "cloudformation"
    # What `aws sagemaker create-training-job --cli-input-json` takes.
    is_request = (
        any(word in raw for word in (b"InstanceType", b"ProductionVariants")) and len(raw) < MAX_REQUEST_BYTES
    )
    return "request" if is_request else None
