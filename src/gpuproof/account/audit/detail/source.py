"""The code of a job: where its description says that it is in S3, and a copy of it in a folder.

The SageMaker SDK v2 names an archive in the hyperparameter `sagemaker_submit_directory`; SDK v3 and GPUproof have the channel `code`, and
processing jobs of all of them an input of that name. Archives are untrusted: they are unpacked in bounds, and nothing in them is executed.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gpuproof.account.cleanup.resource import Kind
from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.s3_object import S3Object
from gpuproof.util.humanize import format_bytes

MOST_PACKED, MOST_UNPACKED, MOST_FILES = 64 << 20, 512 << 20, 2000
"""Bytes of an archive, and bytes and files in it or below a prefix: more is not the code of a job."""

_ARCHIVES = (".tar.gz", ".tgz")
_SUBMIT_DIRECTORY, _PROGRAM = "sagemaker_submit_directory", "sagemaker_program"
_CHANNELS = ("gpuproof", "code")
_TEXTS = frozenset({".py", ".ipynb", ".sh", ".txt", ".toml", ".yaml", ".yml", ".json", ".cfg"})
_LONGEST_TEXT = 2 << 20
_MISSING = frozenset({"NoSuchBucket", "404"})


class SourceUnavailable(Exception):
    """The code cannot be read; the message is a sentence that says why."""


@dataclass(frozen=True)
class SourceLocation:
    """Where a job's code is.

    Args:
        bucket, key: of an archive or a file, or a prefix.
        program: the script, where the description names it.
    """

    bucket: str
    key: str
    program: str | None = None

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def source_of(kind: Kind, description: Mapping[str, Any]) -> SourceLocation | None:
    """Where the code of a job is; None if its description names none in S3.

    Args:
        description: the response of DescribeTrainingJob or DescribeProcessingJob.

    Sources: https://github.com/aws/sagemaker-training-toolkit (README, "sagemaker_submit_directory") and
    https://docs.aws.amazon.com/sagemaker/latest/dg/processing-container-run-scripts.html
    """
    if kind is Kind.TRAINING:
        parameters: Mapping[str, str] = description.get("HyperParameters") or {}
        program = _text(parameters.get(_PROGRAM))
        if found := _location(_text(parameters.get(_SUBMIT_DIRECTORY)), program):
            return found
        channels = {
            channel["ChannelName"]: (channel.get("DataSource") or {}).get("S3DataSource") or {}
            for channel in description.get("InputDataConfig") or ()
        }
    else:
        program = None
        channels = {
            item["InputName"]: item.get("S3Input") or {} for item in description.get("ProcessingInputs") or ()
        }
    uris = (channels[name].get("S3Uri") for name in _CHANNELS if name in channels)
    return next((found for uri in uris if (found := _location(uri, program)) is not None), None)


def fetch_source(aws: Aws, location: SourceLocation, folder: Path) -> list[Path]:
    """Copy a job's code into an empty folder; returns its files.

    Raises:
        SourceUnavailable: it no longer exists, is too large, or is no archive.
        GPUproofError: AWS refuses it, or cannot be reached.
    """
    try:
        listed = list(_first(aws.list_objects(location.bucket, location.key)))
    except AwsRefused as refused:
        if refused.code in _MISSING:
            raise SourceUnavailable(f"{location} no longer exists.") from refused
        raise
    objects = [
        item
        for item in listed
        if item.key == location.key or location.key.endswith("/") or item.key.startswith(f"{location.key}/")
    ]
    if not objects:
        raise SourceUnavailable(f"{location} no longer exists.")
    archives = [item for item in objects if item.key.endswith(_ARCHIVES)]
    if archives:
        _fetch_archive(aws, archives[0], folder)
    else:
        for item in objects:
            _fetch_file(aws, item, location, folder)
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    if not found:
        raise SourceUnavailable(f"{location} has no source files.")
    return found


def _first(objects: Iterator[S3Object]) -> Iterator[S3Object]:
    for number, item in enumerate(objects):
        if number >= MOST_FILES:
            raise SourceUnavailable(f"More than {MOST_FILES:,} files are there: it is not only code.")
        yield item


def _fetch_archive(aws: Aws, item: S3Object, folder: Path) -> None:
    if item.size > MOST_PACKED:
        raise SourceUnavailable(f"{item} has {format_bytes(item.size)}: it is not only code.")
    archive = folder.with_name(f"{folder.name}.tar.gz")
    try:
        with aws.open_object(item.bucket, item.key) as content, archive.open("wb") as file:
            shutil.copyfileobj(content, file)
        _reject_too_large(archive, item)
        unpack(archive, folder)
    except ArtifactError as error:
        raise SourceUnavailable(f"{item} cannot be unpacked: {error}") from error
    finally:
        archive.unlink(missing_ok=True)


def _reject_too_large(archive: Path, item: S3Object) -> None:
    """Refuse an archive before anything of it is written.

    Raises:
        SourceUnavailable: it is too large, or no archive.
    """
    total = count = 0
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                total, count = total + member.size, count + 1
                if total > MOST_UNPACKED or count > MOST_FILES:
                    raise SourceUnavailable(
                        f"{item} has more than {MOST_FILES:,} files or {format_bytes(MOST_UNPACKED)}: it is not only code."
                    )
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise SourceUnavailable(f"{item} is no whole archive: {error}.") from error


def _fetch_file(aws: Aws, item: S3Object, location: SourceLocation, folder: Path) -> None:
    """Copy one object, if it is the text of a program, and its path stays in the folder."""
    name = PurePosixPath(item.key).name
    path = item.key.removeprefix(location.key).lstrip("/") or name
    parts = PurePosixPath(path).parts
    is_text = PurePosixPath(name).suffix in _TEXTS and item.size <= _LONGEST_TEXT
    if not is_text or ".." in parts or "\0" in path:
        return
    target = folder.joinpath(*parts)
    content = aws.get_bytes(item.bucket, item.key)
    if content is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _location(uri: str | None, program: str | None) -> SourceLocation | None:
    if uri is None or not uri.startswith("s3://"):
        return None
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return SourceLocation(bucket, key, program) if bucket and key else None


def _text(value: str | None) -> str | None:
    """A hyperparameter: the SDK writes every one as JSON."""
    if value is None:
        return None
    try:
        return str(json.loads(value))
    except ValueError:
        return value
