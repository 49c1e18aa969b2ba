"""`gpuproof delete`, on the emulator over HTTP: what exists afterwards."""

from __future__ import annotations

import pytest

from gpuproof.backends.sagemaker.endpoints.delete import delete_endpoint, plan_deletion
from gpuproof.errors import UsageError
from gpuproof.units import Duration
from support.endpoint_sandbox import EndpointSandbox
from support.sagemaker_sandbox import RecordingProgress, injected_faults

pytestmark = pytest.mark.slow


def delete(endpoints: EndpointSandbox) -> list[str]:
    aws = endpoints.aws()
    return delete_endpoint(aws, plan_deletion(aws, endpoints.name), RecordingProgress(), endpoints.sleep)


def test_everything_of_an_endpoint_is_deleted_and_nothing_of_its_neighbour(
    endpoints: EndpointSandbox,
) -> None:
    neighbour = EndpointSandbox(endpoints.sandbox, f"{endpoints.name}-other")
    endpoints.deploy(ttl=Duration(7200), schedule_role=endpoints.schedule_role())
    endpoints.deploy()
    neighbour.deploy(neighbour.plan(server="image"))
    before = neighbour.left()
    assert delete(endpoints) == []
    assert [line for line in endpoints.left() if line not in before] == []
    assert neighbour.left() == before
    assert delete(neighbour) == []
    assert neighbour.left() == []


def test_the_rest_is_deleted_after_somebody_else_deleted_the_endpoint(endpoints: EndpointSandbox) -> None:
    endpoints.deploy()
    endpoints.client.delete_endpoint(EndpointName=endpoints.name)
    assert delete(endpoints) == []
    assert endpoints.left() == []


def test_an_endpoint_that_cannot_be_deleted_keeps_its_model_and_its_schedule(
    endpoints: EndpointSandbox,
) -> None:
    endpoints.deploy(ttl=Duration(7200), schedule_role=endpoints.schedule_role())
    with injected_faults(endpoints.emulator, "access-denied,operation=DeleteEndpoint"):
        (problem,) = delete(endpoints)
    assert "AccessDenied" in problem
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model", "schedule"]


def test_an_unknown_endpoint_is_a_usage_error(endpoints: EndpointSandbox) -> None:
    with pytest.raises(UsageError, match="There is no endpoint"):
        plan_deletion(endpoints.aws(), "nothing-of-that-name")
