"""Files in GPUproof's bucket of runs that were never submitted: a command that was killed could not remove them."""

from __future__ import annotations

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import RUN_TAG, HourlyCost, Kind, Resource
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.s3_object import S3Object
from gpuproof.backends.remote.bucket import find_bucket
from gpuproof.backends.remote.s3_layout import LAUNCHES, RUNS, RunLayout, launched_run
from gpuproof.errors import UsageError

_YOUNG_SECONDS = 86_400.0
"""A run whose files are younger may be being submitted."""

_MOST_KEYS = 1000
"""Files in one request of DeleteObjects; a run that was never submitted has four."""


def collect_run_files(region: Region) -> list[Resource]:
    """The folders of runs for which there is neither a job nor a launch record, and that contain only code."""
    aws = region.aws
    bucket = region.read("files of runs", "s3", lambda: _bucket(aws))
    if bucket is None:
        return []
    listed = region.read("files of runs", "s3", lambda: list(aws.list_objects(bucket, RUNS)))
    folders: dict[str, list[S3Object]] = {}
    for item in listed or ():
        folders.setdefault(item.key.removeprefix(RUNS).partition("/")[0], []).append(item)
    suspects = {run: items for run, items in folders.items() if _may_be_unsubmitted(run, items, region.now)}
    if not suspects:
        return []
    launches = region.read("files of runs", "s3", lambda: list(aws.list_objects(bucket, LAUNCHES)))
    tagged = region.read(
        "files of runs",
        "resourcegroupstaggingapi",
        lambda: [tags[RUN_TAG] for _, tags in aws.tagged(RUN_TAG)],
    )
    if launches is None or tagged is None:
        return []
    submitted = {launched_run(item.key) for item in launches} | set(tagged)
    return [
        _folder(region, bucket, run, items) for run, items in sorted(suspects.items()) if run not in submitted
    ]


def _bucket(aws: Aws) -> str | None:
    """The bucket of the runs; None if there is none.

    Raises:
        AwsRefused: the user may not look at it.
    """
    try:
        return find_bucket(aws)
    except UsageError as error:
        # It is in another region, or the user may not see it: then the rest of the account is listed nevertheless.
        if isinstance(error.__cause__, AwsRefused):
            raise error.__cause__ from None
        return None


def _may_be_unsubmitted(run: str, items: list[S3Object], now: float) -> bool:
    code = RunLayout(run).code
    newest = max(item.modified for item in items)
    return (
        all(item.key.startswith(code) for item in items)
        and now - newest > _YOUNG_SECONDS
        and len(items) <= _MOST_KEYS
    )


def _folder(region: Region, bucket: str, run: str, items: list[S3Object]) -> Resource:
    return Resource(
        Kind.RUN_FILES,
        region.name,
        run,
        state="unused",
        cost=HourlyCost(0.0),
        has_gpu=False,
        created=min(item.modified for item in items),
        tags={RUN_TAG: run},
        owned=True,
        note="of a run that was never submitted",
        details={"files": "\n".join(f"s3://{bucket}/{item.key}" for item in items)},
    )
