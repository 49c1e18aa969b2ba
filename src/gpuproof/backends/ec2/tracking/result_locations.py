"""Where the results and checkpoints of a run on EC2 are, according to its launch record."""

from __future__ import annotations

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.remote.results.objects import Results
from gpuproof.backends.remote.results.output_names import output_name
from gpuproof.backends.remote.s3_layout import CHECKPOINTS, RunLayout, uri
from gpuproof.backends.s3_inputs.mapping import S3Prefix


def results_of(launch: LaunchRecord) -> Results:
    """Where a run's results are; the reports of its agents are among the files of its hosts."""
    reports = S3Prefix(launch.bucket, RunLayout(launch.run_id).hosts)
    if launch.kind == "training":
        output = launch.output or uri(launch.bucket, RunLayout(launch.run_id).output)
        return Results(S3Prefix.parse(f"{output.rstrip('/')}/{launch.run_id}/output/"), verdict=reports)
    outputs = {
        output_name(key, number): S3Prefix.parse(f"{address.rstrip('/')}/")
        for number, (key, address) in enumerate(launch.outputs.items(), 1)
    }
    return Results(outputs=outputs, verdict=reports)


def find_checkpoints(aws: Aws, launch: LaunchRecord) -> str | None:
    """The `s3://` prefix of the checkpoints that a run left below GPUproof's prefix; None if there are none."""
    address = launch.checkpoints
    if not address.startswith(uri(launch.bucket, CHECKPOINTS)):
        return None
    key = address.removeprefix(uri(launch.bucket, ""))
    try:
        return address if next(aws.list_objects(launch.bucket, key), None) is not None else None
    except AwsRefused:
        return None
