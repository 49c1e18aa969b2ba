"""Deployments that succeed, on the emulator over HTTP."""

from __future__ import annotations

import pytest

from gpuproof.backends.sagemaker.endpoints.previous import roll_back_endpoint
from support.endpoint_sandbox import ECHO, EndpointSandbox
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

DOUBLE = ECHO.replace("return data", "return data * 2")
OWN_SERVER = "starting the model server of /opt/ml/{}/gpuproof-agent.pyz in place of"


def test_a_packed_model_is_served_by_the_server_in_its_archive(endpoints: EndpointSandbox) -> None:
    deployed = endpoints.deploy()
    assert deployed.verdict is not None
    assert deployed.verdict.verdict == "no-gpu"
    assert endpoints.invoke([1, 2]) == [1, 2]
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model"]
    assert OWN_SERVER.format("model/code/.gpuproof") in endpoints.log()


def test_an_archive_in_s3_stays_there_and_the_server_is_an_additional_source(
    endpoints: EndpointSandbox,
) -> None:
    plan = endpoints.plan(endpoints.in_s3(), network_isolation=True)
    endpoints.deploy(plan)
    assert endpoints.invoke([3]) == [3]
    assert OWN_SERVER.format("additional-model-data-sources/gpuproof") in endpoints.log()
    files = [line for line in endpoints.left() if line.startswith("file")]
    assert len(files) == 3
    assert not any("model.tar.gz" in line for line in files)


def test_the_images_own_server_serves_if_asked(endpoints: EndpointSandbox) -> None:
    deployed = endpoints.deploy(endpoints.plan(endpoints.packed(server=False), server="image"))
    assert deployed.verdict is None
    assert endpoints.invoke([1]) == [1]
    assert "in place of" not in endpoints.log()


def test_a_second_deployment_updates_and_a_rollback_returns(endpoints: EndpointSandbox) -> None:
    first = endpoints.deploy().config
    second = endpoints.deploy(endpoints.plan(endpoints.packed(DOUBLE))).config
    assert endpoints.invoke([1]) == [1, 1]
    third = endpoints.deploy(endpoints.plan(endpoints.packed(DOUBLE))).config
    configs = {line for line in endpoints.left() if line.startswith("config")}
    assert configs == {f"config {second}", f"config {third}"}
    assert not any(first in line for line in endpoints.left())
    assert roll_back_endpoint(endpoints.aws(), endpoints.name, RecordingProgress(), endpoints.sleep) == second
    again = roll_back_endpoint(endpoints.aws(), endpoints.name, RecordingProgress(), endpoints.sleep)
    assert again == third
