"""Uploads files to the job's bucket, unless they are there already.

Objects appear completely or not at all, and their names are derived from their content: an interrupted upload can be
continued, and two users who upload the same files do not interfere with each other.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.backends.aws import CONNECTIONS, Aws, AwsRefused
from gpuproof.backends.aws.services.s3_transfer import PART, ByteCounter, run_in_threads
from gpuproof.backends.remote.s3_layout import (
    KEPT_DAYS,
    input_prefix,
    manifest_key,
    object_key,
    uri,
)
from gpuproof.backends.remote.upload.content_hash import (
    HashedFile,
    changed_error,
    unreadable_error,
)
from gpuproof.backends.remote.upload.input_folder import InputFolder
from gpuproof.errors import GPUproofError

Progress = Callable[[int, int], None]
"""Callback for uploaded bytes and total bytes."""

_RENEWED_DAYS = KEPT_DAYS - 10
"""Age at which an object is uploaded again, so that it does not expire while a job waits."""


@dataclass(frozen=True)
class Uploaded:
    """A file or folder on S3.

    Args:
        uri: its address; the prefix of a folder.
        key: the address without the bucket.
        digest: SHA-256, in hexadecimal.
        size: total bytes.
        sent: bytes that had to be uploaded; 0 if it was there already.
    """

    uri: str
    key: str
    digest: str
    size: int
    sent: int


def upload_object(
    aws: Aws,
    bucket: str,
    file: HashedFile,
    *,
    kms_key: str | None = None,
    progress: Progress | None = None,
    now: Callable[[], float] = time.time,
) -> Uploaded:
    """Upload a file to the key of its digest, unless it is there.

    Raises:
        GPUproofError: AWS refused, the connection was lost, or the file changed in the meantime. No partial object is left.
    """
    key = object_key(file.digest)
    present = _is_present(aws, bucket, key, file.size, now())
    if not present:
        _upload_content(aws, bucket, key, file, ByteCounter(file.size, progress), kms_key)
    return Uploaded(uri(bucket, key), key, file.digest, file.size, 0 if present else file.size)


def upload_folder(
    aws: Aws,
    bucket: str,
    folder: InputFolder,
    *,
    kms_key: str | None = None,
    progress: Progress | None = None,
) -> Uploaded:
    """Upload the files of a folder to the prefix of its digest, except for those that are there.

    S3's listing decides which are there, so that deleted files are uploaded again. A list of files is written after all
    of them.

    Raises:
        GPUproofError: as in `upload_object`; uploaded files stay, and the next attempt continues with the others. Also
            if there are other files below the prefix, which a job would take for inputs.
    """
    prefix = input_prefix(folder.digest)
    present = {item.key.removeprefix(prefix): item.size for item in aws.list_objects(bucket, prefix)}
    if unknown := sorted(present.keys() - folder.files.keys()):
        raise GPUproofError(
            f"{uri(bucket, prefix)} contains files that the folder {folder.root} does not: {unknown[0]}"
            f"{f' and {len(unknown) - 1} more' if len(unknown) > 1 else ''}.",
            remedy=f"aws s3 rm --recursive {uri(bucket, prefix)}; then run the command again.",
        )
    missing = {name: file for name, file in folder.files.items() if present.get(name) != file.size}
    needed = sum(file.size for file in missing.values())
    counter = ByteCounter(needed, progress)

    def upload_one(name: str) -> None:
        _upload_content(aws, bucket, f"{prefix}{name}", missing[name], counter, kms_key)

    run_in_threads(
        [name for name, file in missing.items() if file.size <= PART], upload_one, counter, CONNECTIONS
    )
    # Multipart uploads, from this thread: an interrupt then deletes the uploaded parts.
    for name in [name for name, file in missing.items() if file.size > PART]:
        upload_one(name)
    manifest = manifest_key(folder.digest)
    if missing or aws.object(bucket, manifest) is None:
        aws.put_object(bucket, manifest, folder.manifest(), kms_key=kms_key)
    return Uploaded(uri(bucket, prefix), prefix, folder.digest, folder.total_bytes, needed)


def _is_present(aws: Aws, bucket: str, key: str, size: int, now: float) -> bool:
    try:
        item = aws.object(bucket, key)
    except AwsRefused as refused:
        # Without s3:ListBucket, S3 answers 403 for a missing key.
        if not refused.is_permission:
            raise
        return False
    return item is not None and item.size == size and now - item.modified < _RENEWED_DAYS * 86400


def _upload_content(
    aws: Aws, bucket: str, key: str, file: HashedFile, counter: ByteCounter, kms_key: str | None
) -> None:
    if file.size <= PART:
        content = _read_unchanged(file)
        aws.put_object(bucket, key, content, kms_key=kms_key)
        counter.add(len(content))
        return
    try:
        aws.upload_file(bucket, key, file.path, kms_key=kms_key, progress=counter.add)
        file.check_unchanged()
    except FileNotFoundError as error:
        raise unreadable_error(file.path, error) from error
    except GPUproofError:
        # The uploaded content may not match the digest in the key.
        if _has_changed(file):
            aws.delete_objects(bucket, [key])
            raise changed_error(file.path) from None
        raise


def _read_unchanged(file: HashedFile) -> bytes:
    try:
        content = file.path.read_bytes()
    except OSError as error:
        raise unreadable_error(file.path, error) from error
    if hashlib.sha256(content).hexdigest() != file.digest:
        raise changed_error(file.path)
    return content


def _has_changed(file: HashedFile) -> bool:
    try:
        file.check_unchanged()
    except (GPUproofError, OSError):
        return True
    return False
