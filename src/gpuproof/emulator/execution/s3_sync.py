"""S3, as an instance uses it: bringing objects into folders and folders to S3."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DownloadFailed(Exception):
    """Data that cannot be brought; the message is what SageMaker says."""


class UploadFailed(Exception):
    """Results that cannot be sent; the message says where and why."""


@dataclass(frozen=True)
class Location:
    """A place in S3.

    Args:
        bucket: the bucket.
        key: a key or the beginning of keys.
    """

    bucket: str
    key: str

    @classmethod
    def parse(cls, uri: str) -> Location:
        """Read `s3://BUCKET/KEY`."""
        bucket, _, key = uri.partition("://")[2].partition("/")
        return cls(bucket, key)

    def below(self, *parts: str) -> Location:
        """A place below this one, as below a folder."""
        key = "/".join([*([self.key.rstrip("/")] if self.key.rstrip("/") else []), *parts])
        return Location(self.bucket, key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def with_prefix(s3: Any, place: Location) -> dict[str, str]:
    """Keys that begin with the place's key, each with its path below a channel.

    What lies below the prefix as below a folder lies at the channel's top; a key that the prefix meets in the middle of
    a name keeps that name. Keys that end in a slash are the S3 console's folders.

    Raises:
        DownloadFailed: there are none.
    """
    below = place.key if place.key.endswith("/") or not place.key else f"{place.key}/"
    above = place.key[: place.key.rfind("/") + 1]
    found: dict[str, str] = {}
    for key in _keys(s3, place):
        if not key.endswith("/"):
            found[key] = key.removeprefix(below if key.startswith(below) else above)
    if not found:
        raise DownloadFailed(
            f'No S3 objects found under S3 URL "{place}" given in input data source. Please ensure that the bucket'
            " exists in the selected region, that objects exist under that S3 prefix, and that the role may list the"
            " bucket."
        )
    return found


def with_manifest(s3: Any, place: Location) -> tuple[str, dict[str, str]]:
    """The bucket and keys that a manifest file names: `[{"prefix": "s3://…"}, "a/b.csv", …]`.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html

    Raises:
        DownloadFailed: there is no manifest, or it is none.
    """
    import json

    try:
        content = json.loads(s3.get_object(Bucket=place.bucket, Key=place.key)["Body"].read())
        prefix = Location.parse(content[0]["prefix"])
        return prefix.bucket, {f"{prefix.key}{name}": name for name in content[1:]}
    except s3.exceptions.ClientError as error:
        raise DownloadFailed(f"Could not read the manifest {place}: {_code(error)}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise DownloadFailed(f"{place} is not a manifest: {error}") from error


def share(keys: Mapping[str, str], host: int, hosts: int) -> dict[str, str]:
    """The keys that one of several hosts gets with `ShardedByS3Key`."""
    return {key: path for number, (key, path) in enumerate(sorted(keys.items())) if number % hosts == host}


def bring(s3: Any, bucket: str, keys: Mapping[str, str], folder: Path, *, unzip: bool = False) -> None:
    """Download objects into a folder.

    Args:
        keys: the path below the folder, by key.
        unzip: whether the objects are gzip files that shall be unpacked.

    Raises:
        DownloadFailed: an object cannot be read or cannot become a file below the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for key, path in keys.items():
        target = folder / path
        if not target.resolve().is_relative_to(folder.resolve()):
            raise DownloadFailed(f"s3://{bucket}/{key} leads out of its folder")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, key, str(target), Config=_config())
        except s3.exceptions.ClientError as error:
            raise DownloadFailed(f"{_code(error)} for s3://{bucket}/{key}") from error
        except OSError as error:
            raise DownloadFailed(f"s3://{bucket}/{key}: {error.strerror or error}") from error
        if unzip:
            _unzip(target)


def send_file(s3: Any, path: Path, place: Location, kms_key: str | None = None) -> None:
    """Upload one file.

    Raises:
        UploadFailed: S3 does not take it.
        OSError: it cannot be read.
    """
    from boto3.exceptions import S3UploadFailedError

    extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}
    try:
        s3.upload_file(str(path), place.bucket, place.key, ExtraArgs=extra, Config=_config())
    except S3UploadFailedError as error:
        raise UploadFailed(f"{place}: {error}") from error


def send_folder(s3: Any, folder: Path, place: Location, kms_key: str | None = None) -> None:
    """Upload everything below a folder."""
    for path, name in files_below(folder):
        send_file(s3, path, place.below(name), kms_key)


def files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files below a folder, each with its path below it; links are followed, sockets and dead links left out."""
    for root, _, names in os.walk(folder, followlinks=True):
        for name in sorted(names):
            path = Path(root, name)
            if path.is_file():
                yield path, path.relative_to(folder).as_posix()


class FolderMirror:
    """Uploads what is new in a folder, again and again.

    Args:
        s3: an S3 client.
        folder: on the instance's disk.
        place: in S3.
        kms_key: what S3 encrypts with.
    """

    def __init__(self, s3: Any, folder: Path, place: Location, kms_key: str | None = None) -> None:
        self._s3 = s3
        self._folder = folder
        self._place = place
        self._kms_key = kms_key
        self._sent: dict[str, tuple[int, int]] = {}

    def restore(self) -> None:
        """Bring what S3 has into the folder; nothing there is no error."""
        try:
            keys = with_prefix(self._s3, self._place.below(""))
        except DownloadFailed:
            return
        bring(self._s3, self._place.bucket, keys, self._folder)
        self._sent = dict(self._marks())

    def send(self) -> None:
        """Upload what is new or changed since last time."""
        for name, mark in list(self._marks()):
            if self._sent.get(name) == mark:
                continue
            try:
                send_file(self._s3, self._folder / name, self._place.below(name), self._kms_key)
            except (FileNotFoundError, PermissionError):
                continue  # a temporary file that was renamed meanwhile
            self._sent[name] = mark

    def _marks(self) -> Iterable[tuple[str, tuple[int, int]]]:
        for path, name in files_below(self._folder):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            yield name, (status.st_mtime_ns, status.st_size)


def _keys(s3: Any, place: Location) -> Iterator[str]:
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.key):
            for item in page.get("Contents", ()):
                yield item["Key"]
    except s3.exceptions.ClientError as error:
        raise DownloadFailed(f"{_code(error)} for {place}") from error


def _code(error: Any) -> str:
    told = error.response["Error"]
    return f"{told['Code']} ({error.response['ResponseMetadata']['HTTPStatusCode']}): {told['Message']}"


def _config() -> Any:
    from boto3.s3.transfer import TransferConfig

    # One thread a job is enough on loopback.
    return TransferConfig(use_threads=False, multipart_threshold=1 << 30)


def _unzip(path: Path) -> None:
    target = path.with_suffix("") if path.suffix == ".gz" else path.with_name(f".{path.name}")
    with gzip.open(path) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    if target.name.startswith("."):
        target.replace(path)
    else:
        path.unlink()
