"""Files in GPUproof's bucket that nothing needs: a command that was killed could not remove them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import RUN_TAG, HourlyCost, Kind, Resource
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.s3_object import S3Object
from gpuproof.backends.ec2.requests.launch_objects import UnreadableLaunch, read_launch
from gpuproof.backends.ec2.tracking.outcome import is_overdue
from gpuproof.backends.remote.bucket import find_bucket
from gpuproof.backends.remote.s3_layout import LAUNCHES, RUNS, RunLayout, launched_run
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINTS
from gpuproof.backends.sagemaker.transform.created import ACTIVE
from gpuproof.errors import UsageError

_YOUNG_SECONDS = 86_400.0
"""What younger files are for may be being created."""

_MOST_KEYS = 1000
"""Files in one request of DeleteObjects; a run that was never submitted has four."""

_NAME = re.compile(r"[a-zA-Z0-9-]{1,63}")
"""What SageMaker takes as the name of a model."""


def collect_files(region: Region) -> list[Resource]:
    """The folders of runs that were never submitted or launched, and of models and transform jobs that do not exist."""
    bucket = region.read("files of runs", "s3", lambda: _bucket(region.aws))
    if bucket is None:
        return []
    return [*_of_runs(region, bucket), *_of_models(region, bucket)]


def _of_runs(region: Region, bucket: str) -> list[Resource]:
    """The folders that contain only code, of runs without a job or a launch record, or without the instance it announces."""
    aws = region.aws
    listed = region.read("files of runs", "s3", lambda: list(aws.list_objects(bucket, RUNS)))
    suspects = {
        run: items
        for run, items in _by_folder(listed or (), RUNS).items()
        if _are_uploaded(items, (RunLayout(run).code,))
    }
    if not suspects:
        return []
    launches = region.read("files of runs", "s3", lambda: list(aws.list_objects(bucket, LAUNCHES)))
    tagged = region.read(
        "files of runs",
        "resourcegroupstaggingapi",
        lambda: {tags[RUN_TAG] for _, tags in aws.tagged(RUN_TAG)},
    )
    if launches is None or tagged is None:
        return []
    records = {run: item for item in launches if (run := launched_run(item.key)) is not None}
    found: list[Resource] = []
    for run, items in sorted(suspects.items()):
        if run not in records and run not in tagged and _are_old(items, region.now):
            note = "of a run that was never submitted"
            found.append(_folder(region, Kind.RUN_FILES, bucket, run, items, note))
        elif run in records and region.read(
            "files of runs", "ec2", lambda run=run: _was_never_launched(region, bucket, run)
        ):
            note = "of a run that was never launched"
            marks = [item for item in launches if item.key.endswith(f"/{run}")]
            found.append(_folder(region, Kind.RUN_FILES, bucket, run, [*items, *marks, records[run]], note))
    return found


def _was_never_launched(region: Region, bucket: str, run: str) -> bool:
    """Whether a launch record announces instances that its submission did not launch, and no longer will."""
    try:
        launch = read_launch(region.aws, bucket, run)
    except UnreadableLaunch:
        return False
    if launch is None or launch.instances or not (launch.stopped or is_overdue(launch, region.now)):
        return False
    return not any(region.aws.in_region(launch.region).tagged_instances(values=[run]))


def _of_models(region: Region, bucket: str) -> list[Resource]:
    """The folders of models that do not exist, unless a batch transform job of that name runs."""
    listed = region.read("files of models", "s3", lambda: list(region.aws.list_objects(bucket, ENDPOINTS)))
    found: list[Resource] = []
    for name, items in sorted(_by_folder(listed or (), ENDPOINTS).items()):
        uploaded = tuple(f"{ENDPOINTS}{name}/{part}" for part in ("model.tar.gz", "server/", "input/"))
        if (
            _are_uploaded(items, uploaded)
            and _are_old(items, region.now)
            and _NAME.fullmatch(name)
            and region.read("files of models", "sagemaker", lambda name=name: _is_used(region.aws, name))
            is False
        ):
            note = "of a model that does not exist"
            found.append(_folder(region, Kind.MODEL_FILES, bucket, name, items, note))
    return found


def _is_used(aws: Aws, name: str) -> bool:
    """Whether there is a model of that name, or a running transform job."""
    if any(model["ModelName"] == name for model in aws.models(name)):
        return True
    job = aws.transform_job(name)
    return job is not None and job["TransformJobStatus"] in ACTIVE


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


def _by_folder(listed: Iterable[S3Object], root: str) -> dict[str, list[S3Object]]:
    folders: dict[str, list[S3Object]] = {}
    for item in listed:
        folders.setdefault(item.key.removeprefix(root).partition("/")[0], []).append(item)
    return folders


def _are_uploaded(items: Sequence[S3Object], uploaded: tuple[str, ...]) -> bool:
    """Whether all files are what GPUproof uploads, and few enough for one request."""
    return all(item.key.startswith(uploaded) for item in items) and len(items) < _MOST_KEYS


def _are_old(items: Sequence[S3Object], now: float) -> bool:
    """Whether all files are too old to be in use soon."""
    return now - max(item.modified for item in items) > _YOUNG_SECONDS


def _folder(
    region: Region, kind: Kind, bucket: str, name: str, items: Sequence[S3Object], note: str
) -> Resource:
    return Resource(
        kind,
        region.name,
        name,
        state="unused",
        cost=HourlyCost(0.0),
        has_gpu=False,
        created=min(item.modified for item in items),
        tags={RUN_TAG: name} if kind is Kind.RUN_FILES else {},
        owned=True,
        note=note,
        details={"files": "\n".join(f"s3://{bucket}/{item.key}" for item in items)},
    )
