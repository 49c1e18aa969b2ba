"""Public container images by name and tag: whether they have CUDA, and with which framework and version."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parents[2] / "data" / "container_images.csv"
_HUB = re.compile(r"^(docker\.io/|index\.docker\.io/|registry-1\.docker\.io/|mirror\.gcr\.io/)(library/)?")
_CUDA = re.compile(r"(?:^|[-_.])cu(?:da)?-?(\d{1,2})\.?(\d)(?:[.\d]*)(?=[-_]|$)")
_VERSION = re.compile(r"(?:^|[-v])(\d+\.\d+(?:\.\d+)?)(?=[-+]|$)")
_NVIDIA_CUDA = re.compile(r"^(\d+)\.(\d+)")


class PublicImage(NamedTuple):
    """A public image.

    Attributes:
        name: as it is written.
        device: `gpu` if it has CUDA, `cpu` if its framework is built without.
        framework: `torch`, `tensorflow`, or empty.
        version: of the framework, by the tag; empty if the tag does not have it.
        cuda: the CUDA version, by the tag; empty if the tag does not have it.
        is_toolkit: whether it has CUDA and no framework: it also compiles on machines without a GPU.
    """

    name: str
    device: str
    framework: str
    version: str
    cuda: str
    is_toolkit: bool

    @property
    def title(self) -> str:
        """The framework for messages."""
        return {"torch": "PyTorch", "tensorflow": "TensorFlow"}.get(self.framework, "its libraries")


@cache
def public_image(name: str) -> PublicImage | None:
    """A known public image; None for others, and if a part of the name is unknown that decides."""
    whole = _HUB.sub("", name.partition("@")[0].strip())
    folder, slash, last = whole.rpartition("/")
    repository, _, tag = last.partition(":")
    repository = f"{folder}{slash}{repository}"
    if "$" in repository:
        return None
    for row in _rows():
        if re.fullmatch(row.repository, repository) and re.fullmatch(row.tag, tag):
            return PublicImage(
                name,
                row.device,
                row.framework,
                _version(row, tag),
                _cuda(repository, tag),
                row.use == "build",
            )
    return None


class _Row(NamedTuple):
    repository: str
    tag: str
    device: str
    framework: str
    use: str


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(row["repository"], row["tag"], row["device"], row["framework"], row["use"])
        for row in read_rows(_TABLE)
    )


def _version(row: _Row, tag: str) -> str:
    if not row.framework or "nvcr" in row.repository or not row.repository.startswith(_VERSIONED):
        return ""
    match = _VERSION.match(tag)
    return match.group(1) if match is not None else ""


_VERSIONED = ("pytorch/pytorch", "tensorflow/tensorflow", "tensorflow/serving", "(\\d{12}")
"""Repositories whose tags start with the version of the framework."""


def _cuda(repository: str, tag: str) -> str:
    match = _NVIDIA_CUDA.match(tag) if repository.endswith("nvidia/cuda") else _CUDA.search(tag)
    return f"{match.group(1)}.{match.group(2)}" if match is not None else ""
