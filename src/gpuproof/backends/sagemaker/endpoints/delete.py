"""Deletes an endpoint with everything that belongs to it, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws
from gpuproof.backends.aws.errors import message_with_permission
from gpuproof.backends.aws.unknown_account import UnknownAccount
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINT_TAG, ENDPOINTS
from gpuproof.backends.sagemaker.endpoints.previous import own_configs, own_models
from gpuproof.backends.sagemaker.endpoints.removal import Remover
from gpuproof.backends.sagemaker.endpoints.requests import (
    VARIANT,
    config_undo,
    model_undo,
    schedule_of,
)
from gpuproof.backends.sagemaker.endpoints.scaling import scaling_undo
from gpuproof.errors import GPUproofError, UsageError


@dataclass(frozen=True)
class Deletion:
    """What `gpuproof delete` would delete.

    Args:
        exists: whether the endpoint itself still exists.
        is_own: whether GPUproof created it.
        models: its models, each with the bucket of its files (None if they are not GPUproof's).
        schedule: whether it has a schedule of GPUproof.
    """

    endpoint: str
    exists: bool
    is_own: bool
    configs: tuple[str, ...]
    models: tuple[tuple[str, str | None], ...]
    schedule: bool
    scaled: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """What will be deleted, one a line."""
        return (
            *((f"endpoint {self.endpoint}",) if self.exists else ()),
            *(f"endpoint configuration {name}" for name in self.configs),
            *(f"model {name}" for name, _ in self.models),
            *((f"schedule {schedule_of(self.endpoint).name}",) if self.schedule else ()),
            *(f"automatic scaling of the variant {name}" for name in self.scaled),
        )


def plan_deletion(aws: Aws, endpoint: str) -> Deletion:
    """Find what belongs to an endpoint: by its description, and by the tags of GPUproof.

    Of an endpoint that GPUproof did not create, only the endpoint itself belongs to it: others may use its configuration.

    Raises:
        UsageError: there is neither an endpoint of that name nor anything that GPUproof created for it.
    """
    if isinstance(aws, UnknownAccount):
        return Deletion(
            endpoint, True, True, ("<configuration>",), (("<model>", None),), True, ("<variant>",)
        )
    found = aws.describe_endpoint(endpoint)
    is_own = found is None or ENDPOINT_TAG in aws.tags(found["EndpointArn"])
    configs = tuple(own_configs(aws, endpoint))
    models = tuple(own_models(aws, endpoint))
    own, stored = schedule_of(endpoint), aws.schedule(schedule_of(endpoint).name)
    schedule = stored is not None and own.is_stored_as(stored)
    variants = [variant["VariantName"] for variant in (found or {}).get("ProductionVariants", ())]
    if found is None and (configs or models):
        # The scaling of an endpoint may outlive it, if its schedule or another command deletes it.
        variants = [VARIANT]
    prefix = f"endpoint/{endpoint}/variant/"
    scaled = tuple(
        target["ResourceId"].removeprefix(prefix) for target in aws.scalable_variants(endpoint, variants)
    )
    if found is None and not configs and not models and not schedule:
        raise UsageError(
            f"There is no endpoint {endpoint} in {aws.region}, and nothing that GPUproof created for it.",
            remedy=f"aws sagemaker list-endpoints --region {aws.region}, or another region: --region",
        )
    return Deletion(endpoint, found is not None, is_own, configs, models, schedule, scaled)


def delete_endpoint(
    aws: Aws,
    deletion: Deletion,
    progress: SubmitProgress,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Delete what was found: first what costs money. Returns messages about what could not be deleted.

    What another command has deleted in the meantime is not an error.
    """
    remover = Remover(aws, progress, sleep)
    problems: list[str] = []

    def attempt(what: str, action: Callable[[], object]) -> bool:
        progress.step(what)
        try:
            action()
        except GPUproofError as error:
            problems.append(f"{what}: {message_with_permission(error)}")
            return False
        return True

    def call(one: ApiCall) -> bool:
        return attempt(one.what, lambda: remover.call(one))

    name = deletion.endpoint
    for variant in deletion.scaled:
        call(scaling_undo(name, variant))
    gone = attempt(f"delete the endpoint {name}", lambda: remover.endpoint(name))
    if not gone:
        # Its schedule may still delete it, and it needs its configuration and its model.
        return problems
    if deletion.schedule:
        call(schedule_of(name).delete())
    for config in deletion.configs:
        call(config_undo(config))
    for model, bucket in deletion.models:
        prefix = f"{ENDPOINTS}{model}/"
        # Its files first: without the model, `gpuproof delete` does not find them.
        if bucket is None or attempt(
            f"delete s3://{bucket}/{prefix}",
            lambda bucket=bucket, prefix=prefix: remover.files(bucket, prefix),
        ):
            call(model_undo(model))
    return problems
