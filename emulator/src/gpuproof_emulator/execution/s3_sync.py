"""Transfers between an instance's folders and S3."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DownloadFailed(Exception):
    """Data cannot be downloaded; the message is SageMaker's."""


class UploadFailed(Exception):
    """Results cannot be uploaded; the message contains the address and the reason."""


@dataclass(frozen=True)
class S3Location:
    """A bucket and a key or prefix in S3.

    Args:
        bucket: the bucket.
        key: a key, or a prefix of keys.
    """

    bucket: str
    key: str

    @classmethod
    def parse(cls, uri: str) -> S3Location:
        """Read `s3://BUCKET/KEY`."""
        bucket, _, key = uri.partition("://")[2].partition("/")
        return cls(bucket, key)

    def below(self, *parts: str) -> S3Location:
        """The location at a path below this one, as below a folder."""
        key = "/".join([*([self.key.rstrip("/")] if self.key.rstrip("/") else []), *parts])
        return S3Location(self.bucket, key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def list_prefix(s3: Any, location: S3Location) -> dict[str, str]:
    """Keys with a prefix, each with its path in a channel's folder.

    A key below the prefix, as below a folder, gets the path after the prefix; a key in which the prefix ends within a
    name keeps that whole name. Keys that end in a slash are the S3 console's folders, and are ignored.

    Raises:
        DownloadFailed: no key has the prefix.
    """
    below = location.key if location.key.endswith("/") or not location.key else f"{location.key}/"
    above = location.key[: location.key.rfind("/") + 1]
    found: dict[str, str] = {}
    for key in _keys(s3, location):
        if not key.endswith("/"):
            found[key] = key.removeprefix(below if key.startswith(below) else above)
    if not found:
        raise DownloadFailed(
            f'No S3 objects found under S3 URL "{location}" given in input data source. Please ensure that the bucket'
            " exists in the selected region, that objects exist under that S3 prefix, and that the role may list the"
            " bucket."
        )
    return found


def read_manifest(s3: Any, location: S3Location) -> tuple[str, dict[str, str]]:
    """The bucket and keys that a manifest file lists: `[{"prefix": "s3://…"}, "a/b.csv", …]`.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html

    Raises:
        DownloadFailed: the manifest does not exist or is invalid.
    """
    try:
        content = json.loads(s3.get_object(Bucket=location.bucket, Key=location.key)["Body"].read())
        prefix, names = S3Location.parse(content[0]["prefix"]), content[1:]
        if not all(isinstance(name, str) and name for name in names):
            raise TypeError("it lists something other than keys")
        return prefix.bucket, {f"{prefix.key}{name}": name for name in names}
    except s3.exceptions.ClientError as error:
        raise DownloadFailed(f"Could not read the manifest {location}: {_code(error)}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise DownloadFailed(f"{location} is not a manifest: {error}") from error


def shard(keys: Mapping[str, str], host: int, hosts: int) -> dict[str, str]:
    """The keys for one of several hosts with `ShardedByS3Key`."""
    return {key: path for number, (key, path) in enumerate(sorted(keys.items())) if number % hosts == host}


def download(s3: Any, bucket: str, keys: Mapping[str, str], folder: Path, *, unzip: bool = False) -> None:
    """Download objects into a folder.

    Args:
        keys: the path below the folder, by key.
        unzip: whether to decompress the objects, which are gzip files.

    Raises:
        DownloadFailed: an object cannot be read, or cannot be stored below the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for key, path in keys.items():
        target = folder / path
        if "\0" in path or not target.resolve().is_relative_to(folder.resolve()):
            raise DownloadFailed(f"s3://{bucket}/{key} would be stored outside of its folder")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, key, str(target), Config=_config())
        except s3.exceptions.ClientError as error:
            raise DownloadFailed(f"{_code(error)} for s3://{bucket}/{key}") from error
        except OSError as error:
            raise DownloadFailed(f"s3://{bucket}/{key}: {error.strerror or error}") from error
        if unzip:
            _unzip(target)


def download_source(
    s3: Any, source: Mapping[str, str], folder: Path, host: int, hosts: int, *, unzip: bool
) -> None:
    """Download a data source for one host.

    Args:
        source: `S3DataSource` of a channel or `S3Input` of a processing input.
        host: number of the host, from 0.
        hosts: number of hosts.
        unzip: whether to decompress the objects, which are gzip files.

    Raises:
        DownloadFailed: the data does not exist, cannot be read or cannot be stored below the folder.
    """
    location = S3Location.parse(source["S3Uri"])
    if source["S3DataType"] == "ManifestFile":
        bucket, keys = read_manifest(s3, location)
    else:
        bucket, keys = location.bucket, list_prefix(s3, location)
    if source.get("S3DataDistributionType") == "ShardedByS3Key":
        keys = shard(keys, host, hosts)
    download(s3, bucket, keys, folder, unzip=unzip)


def upload_file(s3: Any, path: Path, location: S3Location, kms_key: str | None = None) -> None:
    """Upload one file.

    Raises:
        UploadFailed: S3 rejects it.
        OSError: the file cannot be read.
    """
    from boto3.exceptions import S3UploadFailedError

    extra = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": kms_key} if kms_key else {}
    try:
        s3.upload_file(str(path), location.bucket, location.key, ExtraArgs=extra, Config=_config())
    except S3UploadFailedError as error:
        raise UploadFailed(f"{location}: {error}") from error


def upload_folder(s3: Any, folder: Path, location: S3Location, kms_key: str | None = None) -> None:
    """Upload everything below a folder."""
    for path, name in files_below(folder):
        upload_file(s3, path, location.below(name), kms_key)


def files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files below a folder, each with its relative path; links are followed, sockets and broken links ignored."""
    for root, _, names in os.walk(folder, followlinks=True):
        for name in sorted(names):
            path = Path(root, name)
            if path.is_file():
                yield path, path.relative_to(folder).as_posix()


class FolderMirror:
    """Uploads a folder's new and changed files, repeatedly.

    Args:
        s3: an S3 client.
        folder: on the instance's disk.
        location: in S3.
        kms_key: the KMS key with which S3 encrypts.
    """

    def __init__(self, s3: Any, folder: Path, location: S3Location, kms_key: str | None = None) -> None:
        self._s3 = s3
        self._folder = folder
        self._location = location
        self._kms_key = kms_key
        self._uploaded: dict[str, tuple[int, int]] = {}

    def restore(self) -> None:
        """Download the objects in S3 into the folder; it is no error if there are none."""
        try:
            keys = list_prefix(self._s3, self._location.below(""))
        except DownloadFailed:
            return
        download(self._s3, self._location.bucket, keys, self._folder)
        self._uploaded = dict(self._fingerprints())

    def upload_changes(self) -> None:
        """Upload files that are new or changed since the last call."""
        for name, fingerprint in list(self._fingerprints()):
            if self._uploaded.get(name) == fingerprint:
                continue
            try:
                upload_file(self._s3, self._folder / name, self._location.below(name), self._kms_key)
            except (FileNotFoundError, PermissionError):
                continue  # a temporary file that was renamed meanwhile
            except UploadFailed:
                if _fingerprint(self._folder / name) == fingerprint:
                    raise
                continue  # written meanwhile: its content was not what the request was signed for
            self._uploaded[name] = fingerprint

    def _fingerprints(self) -> Iterable[tuple[str, tuple[int, int]]]:
        for path, name in files_below(self._folder):
            if (fingerprint := _fingerprint(path)) is not None:
                yield name, fingerprint


def _fingerprint(path: Path) -> tuple[int, int] | None:
    """What changes with a file's content; `None` if the file is gone."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _keys(s3: Any, location: S3Location) -> Iterator[str]:
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=location.bucket, Prefix=location.key):
            for item in page.get("Contents", ()):
                yield item["Key"]
    except s3.exceptions.ClientError as error:
        raise DownloadFailed(f"{_code(error)} for {location}") from error


def _code(error: Any) -> str:
    details = error.response["Error"]
    return f"{details['Code']} ({error.response['ResponseMetadata']['HTTPStatusCode']}): {details['Message']}"


def _config() -> Any:
    from boto3.s3.transfer import TransferConfig

    # One thread per job is enough on loopback.
    return TransferConfig(use_threads=False, multipart_threshold=1 << 30)


def _unzip(path: Path) -> None:
    target = path.with_suffix("") if path.suffix == ".gz" else path.with_name(f".{path.name}")
    with gzip.open(path) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    if target.name.startswith("."):
        target.replace(path)
    else:
        path.unlink()
