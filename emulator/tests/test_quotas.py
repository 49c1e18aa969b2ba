"""Quotas limit the instances of jobs that are created at the same time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.operations import processing
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import Resource, Store
from support.emulator_context import make_call, make_context


class SlowStore(Store):
    """Lets other threads run between a lookup and the change that follows."""

    def all(self, kind: str | None = None, region: str | None = None) -> list[Resource]:
        found = super().all(kind, region)
        time.sleep(0.1)
        return found


class ClientsOfTrustedRole(Clients):
    """An IAM in which SageMaker may assume every role."""

    def get(self, service: str, region: str) -> Any:
        def get_role(**names: str) -> dict[str, Any]:
            return {"Role": {**names, "AssumeRolePolicyDocument": "sagemaker.amazonaws.com"}}

        exceptions = SimpleNamespace(NoSuchEntityException=KeyError)
        return SimpleNamespace(exceptions=exceptions, get_role=get_role)


def test_a_quota_holds_for_requests_at_the_same_time(tmp_path: Path) -> None:
    context = make_context(
        tmp_path,
        store=SlowStore(tmp_path / "store"),
        quotas={"ml.g5.xlarge for processing job usage": 2},
        clients=ClientsOfTrustedRole("http://127.0.0.1:9", "token"),
    )
    cluster = {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}

    def create(number: int) -> str:
        request = {
            "ProcessingJobName": f"job-{number}",
            "RoleArn": "arn:aws:iam::123456789012:role/jobs",
            "AppSpecification": {"ImageUri": "image"},
            "ProcessingResources": {"ClusterConfig": cluster},
        }
        try:
            processing.create(make_call(context, request))
        except AwsError as error:
            return error.code
        return "made"

    with ThreadPoolExecutor(6) as pool:
        outcomes = sorted(pool.map(create, range(6)))
    assert outcomes == ["ResourceLimitExceeded"] * 4 + ["made"] * 2
