"""Where the results and checkpoints of a run on EC2 are, according to its launch record, and how they are deleted."""

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


def delete_run(aws: Aws, launch: LaunchRecord) -> str:
    """Delete the files of a run that has ended, except for its checkpoints; returns what was deleted, as text."""
    bucket, layout = launch.bucket, RunLayout(launch.run_id)
    keys = [item.key for item in aws.list_objects(bucket, layout.prefix)]
    aws.delete_objects(bucket, keys)
    # Last: if the rest fails, the run is still found.
    mark = [layout.launch_region(launch.region)] if launch.region != aws.region else []
    aws.delete_objects(bucket, [*mark, layout.launch])
    done = f"removed {len(keys) + 1} objects: {uri(bucket, layout.launch)} and all below {uri(bucket, layout.prefix)}"
    # Another run may continue from them, or is using them now.
    if (left := find_checkpoints(aws, launch)) is None:
        return done
    return f"{done}\nits checkpoints are kept, since other runs continue from them; to remove them: aws s3 rm --recursive {left}"
