"""The models and configurations that belong to an endpoint, by their tags, and the return to the previous configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from gpuproof.backends.aws import Aws
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.remote.run_id import name_in_id
from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINT_TAG, ENDPOINTS, PREVIOUS_TAG
from gpuproof.backends.sagemaker.endpoints.removal import Remover
from gpuproof.backends.sagemaker.endpoints.requests import config_undo, model_undo, update_call
from gpuproof.backends.sagemaker.endpoints.scaling import existing_scaling, instance_type_of, scaling_undo
from gpuproof.backends.sagemaker.endpoints.wait import EndpointWait
from gpuproof.errors import UsageError


def own_configs(aws: Aws, endpoint: str) -> Iterator[str]:
    """Yield the names of the endpoint configurations that GPUproof created for an endpoint."""
    for summary in aws.endpoint_configs(name_in_id(endpoint)):
        if aws.tags(summary["EndpointConfigArn"]).get(ENDPOINT_TAG) == endpoint:
            yield summary["EndpointConfigName"]


def own_models(aws: Aws, endpoint: str) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each model that GPUproof created for an endpoint, and the bucket of its files."""
    for summary in aws.models(name_in_id(endpoint)):
        tags = aws.tags(summary["ModelArn"])
        if tags.get(ENDPOINT_TAG) == endpoint:
            yield summary["ModelName"], tags.get("gpuproof:bucket")


def remove_older(aws: Aws, remover: Remover, endpoint: str, keep: Collection[str]) -> list[str]:
    """Delete the endpoint's configurations and models except some, and the files of these models; returns their names."""
    configs = [name for name in own_configs(aws, endpoint) if name not in keep]
    models = [(name, bucket) for name, bucket in own_models(aws, endpoint) if name not in keep]
    for name in configs:
        remover.call(config_undo(name))
    for name, bucket in models:
        # Its files first: without the model, `gpuproof delete` does not find them.
        if bucket is not None:
            remover.files(bucket, f"{ENDPOINTS}{name}/")
        remover.call(model_undo(name))
    return [*configs, *(name for name, _ in models)]


def roll_back_endpoint(
    aws: Aws, endpoint: str, progress: SubmitProgress, sleep: Callable[[float], None] = time.sleep
) -> str:
    """Return an endpoint to its previous configuration, without downtime; returns that configuration's name.

    The current configuration becomes the previous one, so that a second call undoes the first.

    Raises:
        UsageError: there is no such endpoint, or no previous configuration.
        DeploymentFailed: the previous configuration does not come into service; the current one stays.
    """
    found = aws.describe_endpoint(endpoint)
    if found is None:
        raise UsageError(
            f"There is no endpoint {endpoint} in {aws.region}.", remedy="aws sagemaker list-endpoints"
        )
    previous = aws.tags(found["EndpointArn"]).get(PREVIOUS_TAG)
    if previous is None or aws.describe_endpoint_config(previous) is None:
        raise UsageError(
            f"The endpoint {endpoint} has no previous configuration.",
            remedy="`gpuproof deploy --rollback` undoes an update by `gpuproof deploy`.",
        )
    arn, current = found["EndpointArn"], found["EndpointConfigName"]
    scaling = existing_scaling(aws, endpoint)
    changes_type = instance_type_of(aws, previous) != instance_type_of(aws, current)
    call = update_call(endpoint, previous, keeps_count=bool(scaling) and not changes_type)
    progress.step(call.what)
    try:
        with DeferredInterrupt():
            if scaling and changes_type:
                Remover(aws, progress, sleep).call(scaling_undo(endpoint))
            execute(aws, call)
            # Before the end of the update, which an interrupt does not stop.
            aws.add_tags(arn, {PREVIOUS_TAG: current})
        EndpointWait(aws, endpoint, None, progress, sleep).until_in_service(previous)
    except DeploymentFailed:
        aws.add_tags(arn, {PREVIOUS_TAG: previous})
        raise
    finally:
        if changes_type:
            for registration in scaling:
                execute(aws, registration)
    return previous
