"""The jobs that constructs of the CDK describe beyond their resources: tasks of Step Functions, and containers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.jobs.cdk.constructs import Construct, asset_of
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers.boto3 import request_jobs

_TASKS = {
    "SageMakerCreateTrainingJob": "create_training_job",
    "SageMakerCreateTransformJob": "create_transform_job",
    "SageMakerCreateEndpointConfig": "create_endpoint_config",
}
"""Tasks of `aws_stepfunctions_tasks`, with the request that they send."""
_CONTAINERS = ("batch.EcsEc2ContainerDefinition", "add_container")


def jobs_of(constructs: list[Construct]) -> Iterator[JobDefinition]:
    """The jobs of the constructs of one program, in order."""
    for construct in constructs:
        task = construct.name.rpartition(".")[2]
        if construct.name.startswith("stepfunctions_tasks.") and task in _TASKS:
            request = _request(construct.properties)
            for job in request_jobs(_TASKS[task], request, construct.span):
                yield replace(job, source="cdk", api=task)
        elif construct.name in _CONTAINERS:
            yield from _container(construct)


def _container(construct: Construct) -> Iterator[JobDefinition]:
    """A container, with the Dockerfile that builds its image if that is an asset."""
    properties = construct.properties
    count = properties.at("GpuCount" if construct.name == "add_container" else "Gpu")
    image, command = properties.at("Image"), properties.at("Command")
    recipe = asset_of(image)
    title = f"container {construct.id}".strip()
    asks_for_none = count.is_absent and _is_complete(properties)
    if recipe is None and (command.is_absent or (count.is_absent and not asks_for_none)):
        return
    gpus = known(0, construct.span) if asks_for_none else count
    job = JobDefinition(
        kind="training",
        source="container",
        api=title,
        span=construct.span,
        instance_count=known(1),
        gpu_count=gpus if not gpus.is_absent else Value("unknown"),
        image=ABSENT if recipe is not None else image,
        environment=properties.at("Environment"),
        command=command,
        arguments={"dockerfile": known(recipe, image.span)} if recipe is not None else {},
    )
    yield job


def _is_complete(properties: Value) -> bool:
    return properties.entries is not None and properties.entries.complete


def _request(properties: Value) -> Value:
    """The request of a task, with the members of the API; CDK writes `ml.` before the instance type itself."""
    entries = Entries(properties.parts)
    for name in ("ResourceConfig", "TransformResources"):
        if name in entries:
            entries[name] = _prefixed(entries[name])
    variants = entries["ProductionVariants"].items if "ProductionVariants" in entries else None
    if variants is not None:
        entries["ProductionVariants"] = known(tuple(map(_prefixed, variants)))
    if "Hyperparameters" in entries:
        entries["HyperParameters"] = entries.pop("Hyperparameters")
    return known(entries, properties.span)


def _prefixed(cluster: Value) -> Value:
    """A cluster or variant with the instance type that the request has."""
    written = cluster.at("InstanceType")
    if written.text is None or cluster.entries is None:
        return cluster
    prefixed = Value(written.certainty, (f"ml.{written.text}",), written.span)
    return known(Entries({**cluster.entries, "InstanceType": prefixed}), cluster.span)
