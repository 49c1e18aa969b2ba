"""Maps S3 objects to the files of a channel, as SageMaker does."""

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
        files: the object of each file, by the file's path below the channel.
    """

    files: dict[str, S3Object]
    notes: tuple[str, ...]


def lay_out(source: S3Prefix, objects: Iterable[S3Object]) -> Layout:
    """Map every object to a path below the channel.

    Objects below the prefix as a folder are mapped to the top of the channel. A prefix that is not a folder also matches
    in the middle of a name: such objects keep their whole names, as on SageMaker (seen in
    https://github.com/aws/sagemaker-python-sdk/issues/3612). So a single object becomes a file of its own name.

    Raises:
        InvalidJob: no object matches, or a key cannot become a file below the channel.
    """
    files: dict[str, S3Object] = {}
    markers: list[S3Object] = []
    partial_names: list[str] = []
    below = source.prefix if source.prefix.endswith("/") or not source.prefix else f"{source.prefix}/"
    above = source.prefix[: source.prefix.rfind("/") + 1]
    for item in objects:
        if item.key.endswith("/"):
            # The S3 console creates these for empty folders; a file cannot have such a name.
            markers.append(item)
            continue
        if not item.key.startswith(below):
            partial_names.append(item.key)
        top = below if item.key.startswith(below) else above
        path = _path(item, item.key.removeprefix(top))
        if path in files:
            raise _unmappable(item, f"and {files[path].key} map to the same file, {path}")
        files[path] = item
    if not files:
        raise InvalidJob(f"No object matches {source}.", remedy=f"List the bucket: aws s3 ls {source}")
    _check_file_and_folder(files)
    return Layout(files, (*_marker_notes(markers), *_partial_name_notes(source, files, partial_names)))


def _path(item: S3Object, relative: str) -> str:
    parts = [part for part in relative.split("/") if part]
    if ".." in parts or "." in parts:
        raise _unmappable(item, "has . or .. in its path, which is outside of the channel")
    if any("\0" in part or len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise _unmappable(item, "is not a valid file name")
    return "/".join(parts)


def _check_file_and_folder(files: dict[str, S3Object]) -> None:
    for path, item in files.items():
        parts = path.split("/")
        for count in range(1, len(parts)):
            parent = files.get("/".join(parts[:count]))
            if parent is not None:
                raise _unmappable(parent, f"is a file and also a folder of {item.key}")


def _unmappable(item: S3Object, why: str) -> InvalidJob:
    return InvalidJob(
        f"{item} {why}. Nothing was downloaded.",
        remedy="Rename the object, or use a prefix that does not match it.",
    )


def _marker_notes(markers: list[S3Object]) -> list[str]:
    return [
        f"{item} ends in a slash and cannot become a file: its {item.size} bytes were skipped"
        for item in markers
        if item.size
    ]


def _partial_name_notes(source: S3Prefix, files: dict[str, S3Object], keys: list[str]) -> list[str]:
    others = [key for key in keys if key != source.prefix]
    if not others or len(others) == len(files):
        # All keys match in the same way: the prefix is meant like that.
        return []
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    # If an object has exactly that name, a slash at the end would exclude it.
    narrow = "" if source.prefix in keys else f"; {source}/ matches only the folder"
    return [f"{source} also matches s3://{source.bucket}/{others[0]}{more}, as on SageMaker{narrow}"]
