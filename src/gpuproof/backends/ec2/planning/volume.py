"""Chooses the size of the root volume."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.target import ChosenAmi
from gpuproof.backends.remote.upload.upload_plan import UploadPlan
from gpuproof.errors import InvalidJob

GIB = 1 << 30
_WORK_GIB = 40
"""For packages of requirements.txt, the model, checkpoints and their archives."""

IMAGE_GIB = 60
"""For a container image: its layers, compressed and unpacked. AWS's images for GPUs have up to 25 GB unpacked."""

_SPARE_GIB = 500
"""The most inputs for which the root volume has room although they belong on a local disk, in case that cannot be used: gp3 costs
$0.08 per GB-month, so that this is $0.06 an hour."""

_UNKNOWN_SNAPSHOT_GIB = 100
"""Where the AMI cannot be described; a volume that is too small would be rejected."""

_MOST_OBJECTS = 10_000


class InputSize:
    """The size of all inputs in bytes; of an input on S3, of its first 10,000 objects. It is determined at the first call.

    Args:
        remote: addresses of the inputs on S3 by name.
    """

    def __init__(self, aws: Aws, uploads: UploadPlan, remote: Mapping[str, str]) -> None:
        self._aws = aws
        self._uploads = uploads
        self._remote = remote
        self._lock = threading.Lock()
        self._size: int | None = None

    def __call__(self) -> int:
        """The size; from several threads, too."""
        with self._lock:
            if self._size is None:
                self._size = self._read()
            return self._size

    def _read(self) -> int:
        total = sum(folder.total_bytes for folder in self._uploads.folders.values())
        for address in self._remote.values():
            bucket, _, key = address.removeprefix("s3://").partition("/")
            try:
                total += sum(
                    object_.size for object_ in islice(self._aws.list_objects(bucket, key), _MOST_OBJECTS)
                )
            except AwsRefused as refused:
                if not refused.is_permission:
                    raise
        return total


def volume_gib(ami: ChosenAmi, given: int | None, inputs: int, *, image: int = 0, local_disk: bool) -> int:
    """The size of the root volume in GiB.

    Args:
        ami: the machine image, whose snapshot must fit.
        given: the size that the job names.
        inputs: size of all inputs in bytes.
        image: GiB for a container image, which Docker keeps on the root volume.
        local_disk: whether the instance has local disks for the job's files; the volume has room for small inputs in any case.

    Raises:
        InvalidJob: the given size is smaller than the image's snapshot.
    """
    if given is not None:
        if given < ami.snapshot_gb:
            raise InvalidJob(
                f"volume_size is {given} GiB, and the AMI {ami.id} needs {ami.snapshot_gb} GiB.",
                remedy=f"ec2: volume_size: {ami.snapshot_gb + _WORK_GIB}, or leave it out.",
            )
        return given
    snapshot = ami.snapshot_gb or _UNKNOWN_SNAPSHOT_GIB
    room = -(-inputs // GIB)
    return snapshot + _WORK_GIB + image + (0 if local_disk and room > _SPARE_GIB else room)
