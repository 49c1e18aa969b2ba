"""Updates of endpoints that are scaled automatically, on the emulator over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed
from gpuproof.backends.sagemaker.endpoints.previous import roll_back_endpoint
from support.endpoint_sandbox import EndpointSandbox
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

OTHER_TYPE = "ml.g5.2xlarge"
BROKEN = "def model_fn(model_dir):\n    raise ValueError('broken')\n"


@pytest.fixture
def scaled(endpoints: EndpointSandbox) -> EndpointSandbox:
    """An endpoint that scales between 1 and 4 instances and has 3 now."""
    endpoints.deploy(max_instances=4, target_concurrency=7.0)
    change = {"VariantName": "AllTraffic", "DesiredInstanceCount": 3}
    endpoints.client.update_endpoint_weights_and_capacities(
        EndpointName=endpoints.name, DesiredWeightsAndCapacities=[change]
    )
    endpoints.client.get_waiter("endpoint_in_service").wait(
        EndpointName=endpoints.name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    return endpoints


def scaling(endpoints: EndpointSandbox) -> tuple[Any, ...]:
    """The capacities of the scalable target, and the target value of its policy."""
    client = endpoints.emulator.client("application-autoscaling")
    of_target = {"ServiceNamespace": "sagemaker"}
    (target,) = (
        found
        for found in client.describe_scalable_targets(**of_target)["ScalableTargets"]
        if found["ResourceId"].startswith(f"endpoint/{endpoints.name}/")
    )
    (policy,) = client.describe_scaling_policies(**of_target, ResourceId=target["ResourceId"])[
        "ScalingPolicies"
    ]
    value = policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"]
    return target["MinCapacity"], target["MaxCapacity"], value


def instances(endpoints: EndpointSandbox) -> int:
    (variant,) = endpoints.client.describe_endpoint(EndpointName=endpoints.name)["ProductionVariants"]
    return variant["DesiredInstanceCount"]


def test_an_update_keeps_the_instances_that_the_scaling_has_added(scaled: EndpointSandbox) -> None:
    scaled.deploy()
    assert instances(scaled) == 3
    assert scaling(scaled) == (1, 4, 7.0)


def test_an_update_to_another_instance_type_starts_the_scaling_again(scaled: EndpointSandbox) -> None:
    scaled.deploy(instance_type=OTHER_TYPE)
    assert scaling(scaled) == (1, 4, 7.0)
    roll_back_endpoint(scaled.aws(), scaled.name, RecordingProgress(), scaled.sleep)
    assert scaling(scaled) == (1, 4, 7.0)


def test_an_update_with_other_limits_replaces_the_scaling(scaled: EndpointSandbox) -> None:
    scaled.deploy(instance_type=OTHER_TYPE, max_instances=2, target_concurrency=5.0)
    assert scaling(scaled) == (1, 2, 5.0)


def test_a_failed_update_to_another_instance_type_leaves_the_scaling_as_it_was(
    scaled: EndpointSandbox,
) -> None:
    before = scaled.serving()
    with pytest.raises(DeploymentFailed):
        scaled.deploy(scaled.plan(scaled.packed(BROKEN), instance_type=OTHER_TYPE))
    assert scaled.serving() == before
    assert scaling(scaled) == (1, 4, 7.0)


def test_the_emulator_refuses_another_type_for_a_scaled_variant_as_sagemaker_does(
    scaled: EndpointSandbox,
) -> None:
    plan = scaled.plan(instance_type=OTHER_TYPE)
    config = dict(plan.create_config.request)
    variant = {**config["ProductionVariants"][0], "ModelName": scaled.serving()[1]}
    scaled.client.create_endpoint_config(**{**config, "ProductionVariants": [variant]})
    with pytest.raises(scaled.client.exceptions.ClientError, match="registered for automatic scaling"):
        scaled.client.update_endpoint(EndpointName=scaled.name, EndpointConfigName=plan.deployment)
    scaled.client.delete_endpoint_config(EndpointConfigName=plan.deployment)
