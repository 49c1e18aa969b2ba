"""A Batch job asks for a GPU, and the compute environment of the same file has only instance types without one.

Batch starts instances that have what a job requires. If no type of the queue's compute environments has a GPU, the job stays
RUNNABLE forever, without a message. `optimal` selects from the families C, M and R, which have none.
Source: https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html,
https://docs.aws.amazon.com/batch/latest/userguide/gpu-jobs.html.

Bad:

    # file: batch.yaml
    Resources:
      Hosts:
        Type: AWS::Batch::ComputeEnvironment
        Properties:
          Type: MANAGED
          ComputeResources:
            Type: EC2
            MaxvCpus: 64
            InstanceTypes: [c5.4xlarge]  # <-
      Train:
        Type: AWS::Batch::JobDefinition
        Properties:
          Type: container
          ContainerProperties:
            Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:4
            ResourceRequirements:
              - {Type: GPU, Value: "1"}

Good:

    # file: batch.yaml
    Resources:
      Hosts:
        Type: AWS::Batch::ComputeEnvironment
        Properties:
          Type: MANAGED
          ComputeResources:
            Type: EC2
            MaxvCpus: 64
            InstanceTypes: [g5.xlarge, g5.2xlarge]
      Train:
        Type: AWS::Batch::JobDefinition
        Properties:
          Type: container
          ContainerProperties:
            Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/train:4
            ResourceRequirements:
              - {Type: GPU, Value: "1"}

Quiet: another environment with GPUs, and types that are a parameter

    # file: two.yaml
    Resources:
      Small:
        Type: AWS::Batch::ComputeEnvironment
        Properties:
          ComputeResources: {InstanceTypes: [c5.4xlarge]}
      Large:
        Type: AWS::Batch::ComputeEnvironment
        Properties:
          ComputeResources: {InstanceTypes: [p4d.24xlarge]}
      Train:
        Type: AWS::Batch::JobDefinition
        Properties:
          ContainerProperties:
            ResourceRequirements:
              - {Type: GPU, Value: "1"}
    # file: other.yaml
    Resources:
      Hosts:
        Type: AWS::Batch::ComputeEnvironment
        Properties:
          ComputeResources: {InstanceTypes: !Ref Types}
      Train:
        Type: AWS::Batch::JobDefinition
        Properties:
          ContainerProperties:
            ResourceRequirements:
              - {Type: GPU, Value: "1"}
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.jobs.resources import find_resources
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.resource import Resource

rule = Rule("IN110", "gpu-job-without-gpu-hosts", Severity.ERROR)

_ENVIRONMENTS = {
    "AWS::Batch::ComputeEnvironment": ("ComputeResources", "InstanceTypes"),
    "aws_batch_compute_environment": ("compute_resources", 0, "instance_type"),
}
_FAMILIES = ("optimal", "default_x86_64", "default_arm64")


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if "GPU" not in unit.source.upper() or not any(word in unit.source for word in ("Batch", "batch")):
        return
    resources = find_resources(unit, project.workspace)
    environments = [
        (resource, resource.get(*path))
        for resource in resources
        if (path := _ENVIRONMENTS.get(resource.type)) is not None
    ]
    jobs = [resource for resource in resources if _asks_for_gpu(resource)]
    if not jobs or not environments or not all(_has_no_gpu(types, project) for _, types in environments):
        return
    resource, types = environments[0]
    names = ", ".join(f"`{item.text}`" for item in types.items or ())
    yield rule.hit(
        types.span or resource.span,
        f"The job `{jobs[0].name}` asks for a GPU, but the compute environment `{resource.name}` has only {names}, which have "
        "none: it stays RUNNABLE.",
        remedy="Use instance types with a GPU, such as g5.xlarge.",
    )


def _has_no_gpu(types: Value, project: Project) -> bool:
    """Whether all types of an environment are known, and none has a GPU."""
    return bool(types.items) and all(_is_cpu(item.text, project) for item in types.items or ())


def _is_cpu(name: str | None, project: Project) -> bool:
    if name is None:
        return False
    if name in _FAMILIES:
        return True
    instance = project.catalogue.instance(name if "." in name else f"{name}.xlarge")
    return instance is not None and not instance.gpu_count


def _asks_for_gpu(resource: Resource) -> bool:
    match resource.type:
        case "AWS::Batch::JobDefinition":
            requirements = resource.get("ContainerProperties", "ResourceRequirements")
        case "AWS::ECS::Container":
            requirements = resource.get("ResourceRequirements")
        case "aws_batch_job_definition":
            text = resource.text_of(resource.get("container_properties")) or ""
            properties = resource.get("container_properties")
            requirements = properties.at("resourceRequirements") if properties.entries is not None else ABSENT
            if '"GPU"' in text:
                return True
        case _:
            return False
    return any((item.at("Type").text or item.at("type").text) == "GPU" for item in requirements.items or ())
