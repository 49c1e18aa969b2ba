"""Where the reports of a job's hosts meet: a folder that they share, or a prefix in S3."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from gpuproof.util.atomic import write_bytes
from gpuproof.watch.group.location import S3_SCHEME, bucket_of
from gpuproof.watch.group.s3_client import S3Client

_LARGEST_BYTES = 64 << 20


class StoreError(Exception):
    """Something could not be read or written there; the text says what, why, and what to do."""


class Store(Protocol):
    """Small files with names, each of which is replaced at once."""

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file.

        Raises:
            StoreError: it was not written.
        """
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Create a file; false if there is one of this name.

        Raises:
            StoreError: it was not written.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file; `None` if there is none.

        Raises:
            StoreError: it could not be read.
        """
        ...

    def names(self) -> list[str]:
        """The names of all files, in order; those in folders have slashes.

        Raises:
            StoreError: they could not be listed.
        """
        ...


def open_store(location: str, environ: Mapping[str, str], client: S3Client | None = None) -> Store:
    """The store at a location.

    Args:
        location: a folder, or `s3://BUCKET` or `s3://BUCKET/PREFIX`.
        environ: has AWS credentials, or where to get them.
        client: replaces the one that uses these credentials.

    Raises:
        StoreError: an S3 location without a bucket.
    """
    if not location.startswith(S3_SCHEME):
        return FolderStore(Path(location))
    bucket = bucket_of(location)
    prefix = location[len(S3_SCHEME) + len(bucket) :]
    if not bucket:
        raise StoreError(f"{location} names no bucket: write s3://BUCKET/PREFIX")
    return S3Store(client or S3Client(environ), bucket, prefix.strip("/"))


class FolderStore:
    """Files in a folder, which is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file."""
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, content)
        except OSError as error:
            raise StoreError(f"{path} could not be written: {error.strerror or error}") from error

    def create(self, name: str, content: bytes) -> bool:
        """Create a file unless it exists."""
        path = self._folder / name
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(content)
            try:
                os.link(partial, path)  # atomic also on NFS
            except FileExistsError:
                return False
            finally:
                partial.unlink()
        except OSError as error:
            raise StoreError(f"{path} could not be written: {error.strerror or error}") from error
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a file."""
        try:
            with (self._folder / name).open("rb") as file:
                return file.read(_LARGEST_BYTES)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"{self._folder / name} could not be read: {error.strerror or error}") from error

    def names(self) -> list[str]:
        """The names of the files in the folder and in its folders."""
        try:
            paths = [*self._folder.glob("*"), *self._folder.glob("*/*")]
        except OSError as error:
            raise StoreError(f"{self._folder} could not be listed: {error.strerror or error}") from error
        return sorted(str(path.relative_to(self._folder)) for path in paths if path.is_file())


class S3Store:
    """Objects below a prefix."""

    def __init__(self, client: S3Client, bucket: str, prefix: str) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    def write(self, name: str, content: bytes) -> None:
        """Create or replace an object."""
        self._put(name, content, {})

    def create(self, name: str, content: bytes) -> bool:
        """Create an object unless it exists; a service that cannot do so replaces it."""
        return self._put(name, content, {"If-None-Match": "*"})

    def read(self, name: str) -> bytes | None:
        """The content of an object."""
        answer = self._client.request("GET", self._bucket, f"{self._prefix}{name}")
        if answer.code == "NoSuchKey":
            return None
        if answer.code is not None:
            raise StoreError(answer.problem(f"read s3://{self._bucket}/{self._prefix}{name}", "s3:GetObject"))
        return answer.body

    def names(self) -> list[str]:
        """The names of the objects below the prefix."""
        keys, answer = self._client.list(self._bucket, self._prefix)
        if answer.code is not None:
            raise StoreError(answer.problem(f"list s3://{self._bucket}/{self._prefix}", "s3:ListBucket"))
        return sorted(key[len(self._prefix) :] for key in keys)

    def _put(self, name: str, content: bytes, headers: Mapping[str, str]) -> bool:
        typed = {"Content-Type": "application/json", **headers}
        answer = self._client.request(
            "PUT", self._bucket, f"{self._prefix}{name}", body=content, headers=typed
        )
        if answer.code in ("PreconditionFailed", "ConditionalRequestConflict"):
            return False
        if answer.code is not None:
            raise StoreError(
                answer.problem(f"write s3://{self._bucket}/{self._prefix}{name}", "s3:PutObject")
            )
        return True
