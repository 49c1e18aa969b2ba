"""The small objects by which `gpuproof ps` finds a run on EC2: its launch record, and the region of its instances."""

from __future__ import annotations

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.remote.run_files import deletion_call
from gpuproof.backends.remote.s3_layout import RunLayout, uri
from gpuproof.errors import GPUproofError

NEW_INSTANCE = "ID of the new instance"
"""Stands in a plan for the id of an instance that the submission launches."""


class UnreadableLaunch(GPUproofError):
    """The launch record of a run cannot be read, because a newer version of GPUproof has written it."""

    def __init__(self, message: str, run_id: str) -> None:
        super().__init__(
            message, remedy="Update GPUproof: uv tool upgrade gpuproof, or pip install -U gpuproof."
        )
        self.run_id = run_id


def record_call(record: LaunchRecord) -> ApiCall:
    """The call that writes a launch record, before the launch and again with the ids of the instances."""
    bucket, key = record.bucket, RunLayout(record.run_id).launch
    what = "write the record of the launch, by which `gpuproof ps` finds the run"
    if record.instances:
        what = "add the ids of the instances to the record of the launch"
    request = {"Bucket": bucket, "Key": key, "Body": record.to_bytes()}
    return ApiCall(
        "s3", "put_object", request, what, deletion_call(bucket, [key], "the record of the launch")
    )


def region_mark_call(record: LaunchRecord) -> ApiCall:
    """The call that writes the object that says that the instances are in another region than the bucket."""
    bucket, key = record.bucket, RunLayout(record.run_id).launch_region(record.region)
    what = f"note that the instances are in {record.region}"
    request = {"Bucket": bucket, "Key": key, "Body": b""}
    return ApiCall(
        "s3", "put_object", request, what, deletion_call(bucket, [key], "the region of the launch")
    )


def read_launch(aws: Aws, bucket: str, run_id: str) -> LaunchRecord | None:
    """The launch record of a run; None if there is none.

    Raises:
        UnreadableLaunch: it is of a newer version of GPUproof.
    """
    content = aws.get_bytes(bucket, RunLayout(run_id).launch)
    if content is None:
        return None
    try:
        return LaunchRecord.parse(content)
    except ValueError as error:
        raise UnreadableLaunch(
            f"{uri(bucket, RunLayout(run_id).launch)} could not be read: {error}.", run_id
        ) from error
