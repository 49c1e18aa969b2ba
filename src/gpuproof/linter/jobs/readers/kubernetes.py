"""Finds the jobs in Kubernetes manifests: containers of pods, and the training jobs of the ACK controller for SageMaker."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.readers.boto3 import OPERATIONS, request_jobs
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates import cloudformation
from gpuproof.linter.templates.kubernetes import Pod, gpu_limit, pods, slice_limit, span_of, texts_of

_ACK = "sagemaker.services.k8s.aws"
_ACK_KINDS = {
    "TrainingJob": "create_training_job",
    "ProcessingJob": "create_processing_job",
    "EndpointConfig": "create_endpoint_config",
    "TransformJob": "create_transform_job",
    "NotebookInstance": "create_notebook_instance",
}
"""Kinds of https://aws-controllers-k8s.github.io/community/reference/, whose fields are the members of a request."""
_PROGRAM = re.compile(r"(.*/)?(python[\d.]*|torchrun|accelerate|deepspeed|bash|sh)")
_SUPPORT = ("istio-proxy", "fluent-bit", "filebeat", "git-sync", "oauth-proxy", "cloudsql-proxy")
"""Containers beside the one that does the work."""


def jobs(unit: Unit) -> Iterator[JobDefinition]:
    """The jobs of a manifest, in its order."""
    if _ACK in unit.source:
        yield from _of_ack(unit)
    for pod in pods(unit):
        for container in pod.containers:
            if container.at("name").text not in _SUPPORT and not container.at("image").is_absent:
                yield _of_container(unit, pod, container)


def _of_container(unit: Unit, pod: Pod, container: Value) -> JobDefinition:
    command, arguments = container.at("command"), container.at("args")
    words = [*texts_of(command), *texts_of(arguments)]
    # Arguments alone are those of the image's program, or all of the command if it has none.
    is_program = command.items is not None or bool(words and _PROGRAM.fullmatch(words[0]))
    where_from = command.span or arguments.span
    where = container.at("name").span or span_of(pod, unit)
    types = pod.instance_types()
    return JobDefinition(
        kind="training",
        source="kubernetes",
        api=pod.title,
        span=where,
        instance_type=types if len(types.options) == 1 else ABSENT,
        instance_count=known(1),
        gpu_count=_gpus(pod, container),
        image=container.at("image"),
        environment=_environment(container),
        command=known(tuple(known(word, where_from) for word in words), where_from) if is_program else ABSENT,
        arguments={
            "workdir": container.at("workingDir"),
            "container": container,
            "pod": pod.spec,
            "kind": known(pod.kind),
        },
    )


def _gpus(pod: Pod, container: Value) -> Value:
    """The GPUs of a container: 0 if the pod asks for none; unknown where it may get some in another way."""
    limit = gpu_limit(container)
    if not limit.is_absent:
        return limit
    if not slice_limit(container).is_absent or not pod.spec.at("resourceClaims").is_absent:
        return Value("unknown")
    # The launcher of an MPIJob runs mpirun, which starts the program in the workers.
    is_open = container.at("resources").text is not None or "Launcher" in pod.path
    return Value("unknown") if is_open else known(0)


def _environment(container: Value) -> Value:
    entries = Entries()
    for item in container.at("env").items or ():
        name = item.at("name").text
        if name is not None:
            entries[name] = (
                item.at("value") if not item.at("value").is_absent else Value("unknown", (), item.span)
            )
    entries.complete = container.at("envFrom").is_absent
    return known(entries, container.at("env").span)


def _of_ack(unit: Unit) -> Iterator[JobDefinition]:
    for manifest in cloudformation.documents(unit):
        operation = _ACK_KINDS.get(manifest.at("kind").text or "")
        if operation in OPERATIONS and _ACK in (manifest.at("apiVersion").text or ""):
            spec = manifest.at("spec")
            yield from request_jobs(operation, _as_request(spec), spec.span or unit.span(1))


def _as_request(value: Value) -> Value:
    """A value with the names of the API: `trainingJobName` is `TrainingJobName`."""
    if value.entries is not None:
        entries = Entries({_capital(str(name)): _as_request(item) for name, item in value.entries.items()})
        entries.complete = value.entries.complete
        return known(entries, value.span)
    if value.items is not None:
        return known(tuple(map(_as_request, value.items)), value.span)
    return value


def _capital(name: str) -> str:
    """The name of a member; names of hyperparameters, which follow no case, are seldom in it."""
    return (
        f"{name[:1].upper()}{name[1:]}".replace("S3URI", "S3Uri").replace("URI", "Uri").replace("ARN", "Arn")
    )
