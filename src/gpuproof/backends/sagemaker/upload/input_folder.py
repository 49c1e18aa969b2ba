"""A local folder as an input: which files it holds, and the digest of all of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.backends.aws import CONNECTIONS
from gpuproof.backends.aws.parallel import Tally, work_off
from gpuproof.backends.sagemaker.upload.content_hash import Parcel, parcel_of, unreadable
from gpuproof.errors import UsageError

_LONGEST_NAME = 900
"""Bytes of a file's name below the folder: keys have 1,024, and the prefix takes some.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
"""
_VERSION = 1


@dataclass(frozen=True)
class Folder:
    """A folder's files as they were when they were read.

    Args:
        root: the folder.
        files: each file by its name below the folder, with slashes, in the order of the names.
        digest: SHA-256 over names and contents, in hexadecimal digits.
    """

    root: Path
    files: dict[str, Parcel]
    digest: str

    @property
    def total_bytes(self) -> int:
        """Their sizes, all together."""
        return sum(file.size for file in self.files.values())

    def manifest(self) -> bytes:
        """What the folder holds, as JSON."""
        files = {name: {"size": file.size, "sha256": file.digest} for name, file in self.files.items()}
        return json.dumps({"version": _VERSION, "digest": self.digest, "files": files}, indent=1).encode()


def read_folder(root: Path) -> Folder:
    """Read a folder: every file below it, links followed.

    Raises:
        UsageError: it is not there, holds no files, or holds one that cannot be read or whose name S3 does not take.
        GPUproofError: a file was written meanwhile.
    """
    names = sorted(_names(root))
    if not names:
        raise UsageError(f"{root} holds no files.", remedy="SageMaker takes no empty input: leave it out.")
    read: dict[str, Parcel] = {}

    def read_one(name: str) -> None:
        read[name] = parcel_of(root / name)

    # The digest is computed without holding the interpreter: several files at once use several cores.
    work_off(names, read_one, Tally(0, None), min(CONNECTIONS, os.cpu_count() or 1))
    files = {name: read[name] for name in names}
    return Folder(root, files, _tree_digest(files))


def _tree_digest(files: dict[str, Parcel]) -> str:
    digest = hashlib.sha256()
    for name, file in files.items():
        digest.update(f"{file.digest} {file.size} {name}\0".encode())
    return digest.hexdigest()


def _names(root: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise unreadable(Path(error.filename or root), error) from error

    seen: set[tuple[int, int]] = set()
    for current, folders, files in os.walk(root, onerror=fail, followlinks=True):
        status = os.stat(current)  # noqa: PTH116 - os.walk gives strings
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()  # a link that leads back, or to a folder that is here already
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        for file in files:
            path = Path(current, file)
            if path.is_file():
                yield _checked(path.relative_to(root).as_posix(), root)
            elif path.is_symlink() and not path.exists():
                raise UsageError(f"{path} is a link to what is not there.", remedy="Remove it, or mend it.")


def _checked(name: str, root: Path) -> str:
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise UsageError(
            f"{str(root / name)!r} has a name that is not UTF-8, which S3 does not take.",
            remedy="Give it another name.",
        ) from None
    if length > _LONGEST_NAME:
        raise UsageError(
            f"{root / name} has a name of {length} bytes; S3 takes {_LONGEST_NAME} here.",
            remedy="Shorten it.",
        )
    return name
