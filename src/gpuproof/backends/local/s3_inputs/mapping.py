"""Which object of S3 becomes which file of a channel, as SageMaker lays it out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from gpuproof.backends.aws import S3Object
from gpuproof.errors import InvalidJob

_LONGEST_NAME = 255  # bytes, of most file systems: NAME_MAX in limits.h(0p)


@dataclass(frozen=True)
class S3Prefix:
    """The objects of a bucket whose keys begin with a prefix.

    Args:
        bucket: the bucket.
        prefix: what the keys begin with; empty is the whole bucket.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `s3://BUCKET/PREFIX`."""
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        return cls(bucket, prefix)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


@dataclass(frozen=True)
class Layout:
    """The files of a channel.

    Args:
        files: the object behind each file, by the file's path below the channel.
        notes: what a person should know.
    """

    files: dict[str, S3Object]
    notes: tuple[str, ...]


def lay_out(source: S3Prefix, objects: Iterable[S3Object]) -> Layout:
    """Give every object its place below the channel.

    What lies below the prefix as below a folder lies at the channel's top. A prefix that names no folder also meets
    keys in the middle of a name: those keep their whole names, as SageMaker keeps them (seen in
    https://github.com/aws/sagemaker-python-sdk/issues/3612). So one object alone becomes a file of its own name.

    Raises:
        InvalidJob: nothing is there, or a key cannot become a file below the channel.
    """
    files: dict[str, S3Object] = {}
    markers: list[S3Object] = []
    beside: list[str] = []
    below = source.prefix if source.prefix.endswith("/") or not source.prefix else f"{source.prefix}/"
    above = source.prefix[: source.prefix.rfind("/") + 1]
    for item in objects:
        if item.key.endswith("/"):
            # What the S3 console makes for an empty folder; a file of that name cannot be.
            markers.append(item)
            continue
        if not item.key.startswith(below):
            beside.append(item.key)
        top = below if item.key.startswith(below) else above
        path = _path(item, item.key.removeprefix(top))
        if path in files:
            raise _refused(item, f"and {files[path].key} would be the same file, {path}")
        files[path] = item
    if not files:
        raise InvalidJob(f"{source} holds no object.", remedy=f"See what there is: aws s3 ls {source}")
    _refuse_file_and_folder(files)
    return Layout(files, (*_marker_notes(markers), *_beside_notes(source, files, beside)))


def _path(item: S3Object, relative: str) -> str:
    parts = [part for part in relative.split("/") if part]
    if ".." in parts or "." in parts:
        raise _refused(item, "has . or .. in its path, which leads out of the channel")
    if any("\0" in part or len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise _refused(item, "is no name that a file can have")
    return "/".join(parts)


def _refuse_file_and_folder(files: dict[str, S3Object]) -> None:
    for path, item in files.items():
        parts = path.split("/")
        for count in range(1, len(parts)):
            parent = files.get("/".join(parts[:count]))
            if parent is not None:
                raise _refused(parent, f"is a file, and a folder too, of {item.key}")


def _refused(item: S3Object, why: str) -> InvalidJob:
    return InvalidJob(
        f"{item} {why}. Nothing was downloaded.", remedy="Rename it, or name a prefix that leaves it out."
    )


def _marker_notes(markers: list[S3Object]) -> list[str]:
    return [
        f"{item} ends in a slash, so no file can have its name: its {item.size} bytes were left out"
        for item in markers
        if item.size
    ]


def _beside_notes(source: S3Prefix, files: dict[str, S3Object], beside: list[str]) -> list[str]:
    others = [key for key in beside if key != source.prefix]
    if not others or len(others) == len(files):
        # All keys are of one kind: the prefix means what it says.
        return []
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    # Where an object has exactly that name, a slash at the end would leave it out.
    narrow = "" if source.prefix in beside else f"; {source}/ is the folder alone"
    return [f"{source} also matches s3://{source.bucket}/{others[0]}{more}, as on SageMaker{narrow}"]
