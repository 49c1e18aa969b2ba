"""Warm pools: instances that a training job keeps for the next one, as its Describe tells of them."""

from __future__ import annotations

import time
from typing import Any

from gpuproof.emulator.arns import TRAINING
from gpuproof.emulator.store import Resource, Store

_SAME = ("InstanceType", "InstanceCount", "VolumeSizeInGB", "VolumeKmsKeyId", "InstanceGroups")


def with_pool(job: Resource, clock: float | None = None) -> dict[str, Any]:
    """The job's document with the state that its warm pool has by now."""
    document = job.document
    keep = document.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds")
    if not keep:
        return document
    end = document.get("TrainingEndTime")
    if end is None or document["TrainingJobStatus"] not in ("Completed", "Stopped", "Failed"):
        pool: dict[str, Any] = {"Status": "InUse"}
    elif document["TrainingJobStatus"] == "Failed":
        pool = {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}
    elif "reused" in job.extra:
        name, moment = job.extra["reused"]
        pool = {
            "Status": "Reused",
            "ReusedByJob": name,
            "ResourceRetainedBillableTimeInSeconds": int(moment - end),
        }
    else:
        passed = (time.time() if clock is None else clock) - end
        status = "Available" if passed < keep else "Terminated"
        pool = {"Status": status, "ResourceRetainedBillableTimeInSeconds": int(min(passed, keep))}
    return {**document, "WarmPoolStatus": pool}


def take_pool(store: Store, job: Resource) -> bool:
    """Have a new job take the instances of an earlier one over; whether there were any that fit.

    Source of what must be the same: https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html
    """
    if not job.document["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
        return False
    for other in store.all(TRAINING, job.region):
        if other is job or not _fits(other.document, job.document):
            continue
        if with_pool(other).get("WarmPoolStatus", {}).get("Status") == "Available":
            with store.changing(other):
                other.extra["reused"] = (job.name, time.time())
            return True
    return False


def _fits(first: dict[str, Any], second: dict[str, Any]) -> bool:
    pools = [
        [document["ResourceConfig"].get(name) for name in _SAME]
        + [document["RoleArn"], document.get("VpcConfig"), document.get("EnableNetworkIsolation")]
        for document in (first, second)
    ]
    return pools[0] == pools[1]
