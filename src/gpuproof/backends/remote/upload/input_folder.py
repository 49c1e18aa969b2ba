"""Hashes a local input folder: its files, and a digest of all of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof.backends.aws import CONNECTIONS
from gpuproof.backends.aws.services.s3_transfer import ByteCounter, run_in_threads
from gpuproof.backends.remote.upload.content_hash import HashedFile, hash_file, unreadable_error
from gpuproof.errors import UsageError

_LONGEST_NAME = 900
"""Bytes of a file's path below the folder: keys are limited to 1,024, including the prefix.

Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
"""
_VERSION = 1


@dataclass(frozen=True)
class InputFolder:
    """A folder and the hashes of its files.

    Args:
        files: each file by its path below the folder, sorted.
        digest: SHA-256 over paths and contents, in hexadecimal.
    """

    root: Path
    files: dict[str, HashedFile]
    digest: str

    @property
    def total_bytes(self) -> int:
        """The sum of their sizes."""
        return sum(file.size for file in self.files.values())

    def manifest(self) -> bytes:
        """The list of the folder's files, as JSON."""
        files = {name: {"size": file.size, "sha256": file.digest} for name, file in self.files.items()}
        return json.dumps({"version": _VERSION, "digest": self.digest, "files": files}, indent=1).encode()


def hash_folder(root: Path) -> InputFolder:
    """Hash every file below a folder; links are followed.

    Raises:
        UsageError: it does not exist or is empty, or a file cannot be read or has a name that S3 does not allow.
        GPUproofError: a file changed in the meantime.
    """
    names = sorted(list_files(root))
    if not names:
        raise UsageError(
            f"{root} contains no files.", remedy="Remove this input: SageMaker does not allow empty inputs."
        )
    hashed: dict[str, HashedFile] = {}

    def hash_one(name: str) -> None:
        hashed[name] = hash_file(root / name)

    # hashlib releases the interpreter lock: several threads use several cores.
    run_in_threads(names, hash_one, ByteCounter(0, None), min(CONNECTIONS, os.cpu_count() or 1))
    files = {name: hashed[name] for name in names}
    return InputFolder(root, files, _tree_digest(files))


def list_files(root: Path) -> Iterator[str]:
    """Yield the paths of all files below a folder, relative to it; links are followed.

    Raises:
        UsageError: a folder cannot be read, a link is broken, or a file has a name that S3 does not allow.
    """

    def fail(error: OSError) -> None:
        raise unreadable_error(Path(error.filename or root), error) from error

    # A link to a folder that contains the input would add everything beside it.
    parents = [root.resolve(), *root.resolve().parents]
    seen = {(status.st_dev, status.st_ino) for status in map(os.stat, parents[1:])}
    for current, folders, files in os.walk(root, onerror=fail, followlinks=True):
        status = os.stat(current)  # noqa: PTH116 - os.walk gives strings
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()  # a link to a parent, or to a folder that was listed already
            continue
        seen.add((status.st_dev, status.st_ino))
        folders.sort()
        for file in files:
            path = Path(current, file)
            if path.is_file():
                yield _checked(path.relative_to(root).as_posix(), root)
            elif path.is_symlink() and not path.exists():
                raise UsageError(f"{path} is a broken link.", remedy="Remove it, or repair it.")


def _tree_digest(files: dict[str, HashedFile]) -> str:
    digest = hashlib.sha256()
    for name, file in files.items():
        digest.update(f"{file.digest} {file.size} {name}\0".encode())
    return digest.hexdigest()


def _checked(name: str, root: Path) -> str:
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise UsageError(
            f"{str(root / name)!r} has a name that is not UTF-8, which S3 does not allow.",
            remedy="Rename it.",
        ) from None
    if length > _LONGEST_NAME:
        raise UsageError(
            f"{root / name} has a path of {length} bytes; S3 allows {_LONGEST_NAME} here.",
            remedy="Shorten it.",
        )
    return name
