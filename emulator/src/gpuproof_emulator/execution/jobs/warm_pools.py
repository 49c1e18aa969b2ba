"""Warm pools: instances that a training job keeps for the next job, as Describe reports them."""

from __future__ import annotations

import time
from typing import Any

from gpuproof_emulator.store import TRAINING, Resource, Store

_MATCHED_MEMBERS = ("InstanceType", "InstanceCount", "VolumeSizeInGB", "VolumeKmsKeyId", "InstanceGroups")


def describe_with_warm_pool(job: Resource, clock: float | None = None) -> dict[str, Any]:
    """The job's document with the current state of its warm pool."""
    document = job.document
    keep = document.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds")
    if not keep:
        return document
    keep = job.extra.get("keep_alive", keep)
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
        elapsed = (time.time() if clock is None else clock) - end
        status = "Available" if elapsed < keep else "Terminated"
        pool = {"Status": status, "ResourceRetainedBillableTimeInSeconds": int(min(elapsed, keep))}
    return {**document, "WarmPoolStatus": pool}


def claim_warm_pool(store: Store, job: Resource) -> bool:
    """Let a new job reuse the instances of an earlier one; returns whether any matched.

    Source of the members that must be equal: https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools.html
    """
    if not job.document["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
        return False
    for other in store.all(TRAINING, job.region):
        if other is job or not _matches(other.document, job.document):
            continue
        if describe_with_warm_pool(other).get("WarmPoolStatus", {}).get("Status") == "Available":
            with store.modify(other):
                other.extra["reused"] = (job.name, time.time())
            return True
    return False


def _matches(first: dict[str, Any], second: dict[str, Any]) -> bool:
    pools = [
        [document["ResourceConfig"].get(name) for name in _MATCHED_MEMBERS]
        + [document["RoleArn"], document.get("VpcConfig"), document.get("EnableNetworkIsolation")]
        for document in (first, second)
    ]
    return pools[0] == pools[1]
