"""Files in GPUproof's bucket that nothing needs: a command that was killed could not remove them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import RUN_TAG, HourlyCost, Kind, Resource
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.s3_object import S3Object
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
    """The folders of runs that were never submitted, and of models and transform jobs that do not exist."""
    bucket = region.read("files of runs", "s3", lambda: _bucket(region.aws))
    if bucket is None:
        return []
    return [*_of_runs(region, bucket), *_of_models(region, bucket)]


def _of_runs(region: Region, bucket: str) -> list[Resource]:
    """The folders of runs for which there is neither a job nor a launch record, and that contain only code."""
    aws = region.aws
    listed = region.read("files of runs", "s3", lambda: list(aws.list_objects(bucket, RUNS)))
    suspects = {
        run: items
        for run, items in _by_folder(listed or (), RUNS).items()
        if _are_deletable(items, (RunLayout(run).code,), region.now)
    }
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
        _folder(region, Kind.RUN_FILES, bucket, run, items, "of a run that was never submitted")
        for run, items in sorted(suspects.items())
        if run not in submitted
    ]


def _of_models(region: Region, bucket: str) -> list[Resource]:
    """The folders of models that do not exist, unless a batch transform job of that name runs."""
    listed = region.read("files of models", "s3", lambda: list(region.aws.list_objects(bucket, ENDPOINTS)))
    found: list[Resource] = []
    for name, items in sorted(_by_folder(listed or (), ENDPOINTS).items()):
        uploaded = tuple(f"{ENDPOINTS}{name}/{part}" for part in ("model.tar.gz", "server/", "input/"))
        if (
            _are_deletable(items, uploaded, region.now)
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


def _are_deletable(items: Sequence[S3Object], uploaded: tuple[str, ...], now: float) -> bool:
    """Whether all files are what GPUproof uploads, and old enough not to be in use soon."""
    newest = max(item.modified for item in items)
    return (
        all(item.key.startswith(uploaded) for item in items)
        and now - newest > _YOUNG_SECONDS
        and len(items) <= _MOST_KEYS
    )


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
