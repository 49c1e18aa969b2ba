"""Sends what a job needs to its bucket; what is there already is not sent again.

Objects appear whole or not at all, and their names follow from their content: an upload that was interrupted goes on
where it was, and two people who send the same do not disturb each other.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.backends.aws import CONNECTIONS, Aws, AwsRefused
from gpuproof.backends.aws.parallel import Tally, work_off
from gpuproof.backends.aws.s3_transfer import PART
from gpuproof.backends.sagemaker.planning.bucket import KEPT_DAYS
from gpuproof.backends.sagemaker.s3_layout import (
    input_prefix,
    manifest_key,
    object_key,
    uri,
)
from gpuproof.backends.sagemaker.upload.content_hash import (
    Parcel,
    changed,
    pack_source,
    parcel_of,
    unreadable,
)
from gpuproof.backends.sagemaker.upload.input_folder import Folder, read_folder
from gpuproof.errors import GPUproofError

__all__ = [
    "Folder",
    "Parcel",
    "Progress",
    "Sent",
    "pack_source",
    "parcel_of",
    "read_folder",
    "send",
    "send_folder",
]

Progress = Callable[[int, int], None]
"""Told how many bytes of how many have gone out."""

_RENEWED_DAYS = KEPT_DAYS - 10
"""An object older than this is sent again: it must not expire while a job that needs it waits."""


@dataclass(frozen=True)
class Sent:
    """What is now on S3.

    Args:
        uri: its address; of a folder, the prefix.
        key: without the bucket.
        digest: SHA-256, in hexadecimal digits.
        size: bytes of all of it.
        sent: bytes that had to go out for it; 0 where it was there.
    """

    uri: str
    key: str
    digest: str
    size: int
    sent: int


def send(
    aws: Aws,
    bucket: str,
    parcel: Parcel,
    *,
    kms_key: str | None = None,
    progress: Progress | None = None,
    now: Callable[[], float] = time.time,
) -> Sent:
    """Send a file to where its digest says, unless it is there.

    Raises:
        GPUproofError: AWS refused, the connection was lost for good, or the file was written meanwhile. Nothing half is
            left.
    """
    key = object_key(parcel.digest)
    there = _is_there(aws, bucket, key, parcel.size, now())
    if not there:
        _send_content(aws, bucket, key, parcel, Tally(parcel.size, progress), kms_key)
    return Sent(uri(bucket, key), key, parcel.digest, parcel.size, 0 if there else parcel.size)


def send_folder(
    aws: Aws,
    bucket: str,
    folder: Folder,
    *,
    kms_key: str | None = None,
    progress: Progress | None = None,
) -> Sent:
    """Send a folder's files to where its digest says, but for those that are there.

    What is there is what S3 lists, so that files that somebody removed are sent again. A manifest is written when all
    of them are there.

    Raises:
        GPUproofError: as `send`; files that arrived stay, and the next attempt goes on with the others. Also where
            somebody put other files below the folder's prefix: a job would take them for its own.
    """
    prefix = input_prefix(folder.digest)
    there = {item.key.removeprefix(prefix): item.size for item in aws.list_objects(bucket, prefix)}
    if strange := sorted(there.keys() - folder.files.keys()):
        raise GPUproofError(
            f"{uri(bucket, prefix)} holds what the folder {folder.root} does not: {strange[0]}"
            f"{f' and {len(strange) - 1} more' if len(strange) > 1 else ''}.",
            remedy=f"aws s3 rm --recursive {uri(bucket, prefix)}; then run it again.",
        )
    missing = {name: file for name, file in folder.files.items() if there.get(name) != file.size}
    needed = sum(file.size for file in missing.values())
    tally = Tally(needed, progress)

    def send_one(name: str) -> None:
        _send_content(aws, bucket, f"{prefix}{name}", missing[name], tally, kms_key)

    work_off([name for name, file in missing.items() if file.size <= PART], send_one, tally, CONNECTIONS)
    # These go in parts, several at once, and in this thread, where an interrupt takes back the parts that went.
    for name in [name for name, file in missing.items() if file.size > PART]:
        send_one(name)
    manifest = manifest_key(folder.digest)
    if missing or aws.object(bucket, manifest) is None:
        aws.put_object(bucket, manifest, folder.manifest(), kms_key=kms_key)
    return Sent(uri(bucket, prefix), prefix, folder.digest, folder.total_bytes, needed)


def _is_there(aws: Aws, bucket: str, key: str, size: int, now: float) -> bool:
    try:
        item = aws.object(bucket, key)
    except AwsRefused as refused:
        # Without s3:ListBucket, S3 answers 403 to a look at what is not there.
        if not refused.is_permission:
            raise
        return False
    return item is not None and item.size == size and now - item.modified < _RENEWED_DAYS * 86400


def _send_content(aws: Aws, bucket: str, key: str, parcel: Parcel, tally: Tally, kms_key: str | None) -> None:
    if parcel.size <= PART:
        content = _read_again(parcel)
        aws.put_object(bucket, key, content, kms_key=kms_key)
        tally.add(len(content))
        return
    try:
        aws.upload_file(bucket, key, parcel.path, kms_key=kms_key, progress=tally.add)
        parcel.refuse_change()
    except FileNotFoundError as error:
        raise unreadable(parcel.path, error) from error
    except GPUproofError:
        # What went out under this key may not be what its name says.
        if _has_changed(parcel):
            aws.delete_objects(bucket, [key])
            raise changed(parcel.path) from None
        raise


def _read_again(parcel: Parcel) -> bytes:
    try:
        content = parcel.path.read_bytes()
    except OSError as error:
        raise unreadable(parcel.path, error) from error
    if hashlib.sha256(content).hexdigest() != parcel.digest:
        raise changed(parcel.path)
    return content


def _has_changed(parcel: Parcel) -> bool:
    try:
        parcel.refuse_change()
    except (GPUproofError, OSError):
        return True
    return False
