"""The notebook instances of GPUproof that run now, as entries of `gpuproof cost`.

SageMaker keeps no record of the times at which a notebook instance was started and stopped before: only the present session counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.account.cleanup.prices import hourly_cost
from gpuproof.account.cleanup.resource import Fleet, is_own
from gpuproof.account.cost.entry import CostEntry
from gpuproof.backends.aws import Aws
from gpuproof.catalogue import Catalogue


def notebook_entries(aws: Aws, catalogue: Catalogue, since: float, now: float) -> list[CostEntry]:
    """The entries of the notebook instances that are in service.

    Args:
        since: count from here, in seconds since the epoch.
        now: seconds since the epoch.

    Raises:
        AwsRefused: the user may not list them or their tags.
    """
    listed = list(aws.list_notebooks(status="InService"))
    tags = aws.resource_tags(("sagemaker:notebook-instance",)) if listed else {}
    return [
        notebook_entry(line, aws.region, catalogue, since, now)
        for line in listed
        if is_own(tags.get(line["NotebookInstanceArn"]))
    ]


def notebook_entry(
    notebook: Mapping[str, Any], region: str, catalogue: Catalogue, since: float, now: float
) -> CostEntry:
    """The entry of a notebook instance in service: the time since its last change, which is its start.

    All changes but those of its status need a stopped instance, so that it has been in service since LastModifiedTime at the latest.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateNotebookInstance.html, and AWS's own script
    takes LastModifiedTime for the start of an instance that runs:
    https://github.com/aws-samples/amazon-sagemaker-notebook-instance-lifecycle-config-samples, scripts/auto-stop-idle/autostop.py
    """
    created = notebook["CreationTime"].timestamp()
    started = notebook.get("LastModifiedTime", notebook["CreationTime"]).timestamp()
    seconds = max(0.0, now - max(started, since))
    instance = notebook["InstanceType"]
    cost = hourly_cost(catalogue, (Fleet(instance, 1),), region, "notebook")
    return CostEntry(
        id=notebook["NotebookInstanceName"],
        job=notebook["NotebookInstanceName"],
        backend="notebook",
        region=region,
        instance_type=instance,
        instance_count=1,
        created=created,
        seconds=seconds,
        usd=None if cost is None else cost.usd * seconds / 3600,
        derived=True,
        saved_usd=0.0,
        running=True,
    )
