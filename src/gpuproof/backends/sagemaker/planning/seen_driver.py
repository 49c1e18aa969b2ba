"""Reads which NVIDIA drivers the hosts of this account's earlier jobs had, from the tags that their verdicts left."""

from __future__ import annotations

from gpuproof.backends.aws import Aws, AwsRefused, SageMakerKind
from gpuproof.backends.remote.run_id import stamp_in
from gpuproof.backends.sagemaker.tracking.records import TAG_DRIVER, TAG_INSTANCE, TAG_RUN, read_instance_tag
from gpuproof.util.versions import version_key

_RESOURCES: dict[SageMakerKind, str] = {
    "training": "sagemaker:training-job",
    "processing": "sagemaker:processing-job",
}
_NEWEST = 3
"""Number of a family's jobs that count: while AWS replaces its hosts, jobs get old and new ones."""


def seen_drivers(aws: Aws, kind: SageMakerKind) -> dict[str, int]:
    """The driver branch of each instance family (`g5`) that jobs have run on: the oldest of the family's newest jobs.

    Empty if nothing is known, or the user may not find jobs by their tags.
    """
    try:
        tagged = [tags for _, tags in aws.tagged(TAG_DRIVER, resource_types=(_RESOURCES[kind],))]
    except AwsRefused as refused:
        if refused.is_permission:
            return {}
        raise
    found: dict[str, list[int]] = {}
    for tags in sorted(tagged, key=lambda tags: stamp_in(tags.get(TAG_RUN, "")), reverse=True):
        instance, _ = read_instance_tag(tags.get(TAG_INSTANCE, ""))
        branch = version_key(tags[TAG_DRIVER])[:1]
        if instance is not None and branch:
            found.setdefault(instance.removeprefix("ml.").partition(".")[0], []).append(branch[0])
    return {family: min(branches[:_NEWEST]) for family, branches in found.items()}
