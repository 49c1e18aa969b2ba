"""A task on AWS Fargate asks for a GPU, and Fargate has none.

ECS rejects a task definition that requires FARGATE and has a GPU in `resourceRequirements`, and AWS Batch a job definition with
the platform capability FARGATE. GPUs need instances: the EC2 launch type, or a managed compute environment of EC2.
Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-gpu.html,
https://docs.aws.amazon.com/batch/latest/userguide/fargate.html.

Bad:

    # file: task.yaml
    Resources:
      Score:
        Type: AWS::ECS::TaskDefinition
        Properties:
          RequiresCompatibilities: [FARGATE]
          NetworkMode: awsvpc
          Cpu: "4096"
          Memory: "16384"
          ContainerDefinitions:
            - Name: score
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/score:4
              ResourceRequirements:
                - {Type: GPU, Value: "1"}  # <-

Bad: a job definition of Batch

    # file: main.tf
    resource "aws_batch_job_definition" "train" {
      name                  = "train"
      type                  = "container"
      platform_capabilities = ["FARGATE"]
      container_properties = jsonencode({
        image   = "111122223333.dkr.ecr.us-east-1.amazonaws.com/train:4"
        command = ["python", "train.py"]
        resourceRequirements = [
          { type = "VCPU", value = "4" },
          { type = "MEMORY", value = "16384" },
          { type = "GPU", value = "1" },  # <-
        ]
      })
    }

Bad: CDK

    import aws_cdk as cdk
    from aws_cdk import aws_ecs as ecs

    stack = cdk.Stack(cdk.App(), "Score")
    task = ecs.FargateTaskDefinition(stack, "Task", cpu=4096, memory_limit_mib=16384)
    task.add_container("score", image=ecs.ContainerImage.from_registry("score:4"), gpu_count=1)  # <-

Good:

    # file: task.yaml
    Resources:
      Score:
        Type: AWS::ECS::TaskDefinition
        Properties:
          RequiresCompatibilities: [EC2]
          ContainerDefinitions:
            - Name: score
              Image: 111122223333.dkr.ecr.us-east-1.amazonaws.com/score:4
              Memory: 14000
              ResourceRequirements:
                - {Type: GPU, Value: "1"}

Quiet: a task on Fargate without a GPU

    # file: task.yaml
    Resources:
      Web:
        Type: AWS::ECS::TaskDefinition
        Properties:
          RequiresCompatibilities: [FARGATE]
          ContainerDefinitions:
            - Name: web
              Image: nginx:1.27
"""

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.readers import containers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.templates.resource import Resource

rule = Rule("IN112", "gpu-on-fargate", Severity.ERROR)

_PLATFORMS = {
    "AWS::ECS::TaskDefinition": "RequiresCompatibilities",
    "aws_ecs_task_definition": "requires_compatibilities",
    "AWS::Batch::JobDefinition": "PlatformCapabilities",
    "aws_batch_job_definition": "platform_capabilities",
}
_CONTAINERS = ("ContainerDefinitions", "container_definitions", "ContainerProperties", "container_properties")


@rule.resource
def check(resource: Resource, _: Project) -> Hits:
    key = _PLATFORMS.get(resource.type)
    platforms = [item.text for item in resource.get(key).items or ()] if key is not None else []
    if resource.type == "AWS::ECS::Container":
        platforms = [resource.get("Platform").text]  # `add_container` of the CDK
    if platforms != ["FARGATE"]:
        return
    for container in _containers(resource):
        for requirement in containers.member(container, "ResourceRequirements").items or ():
            if (containers.member(requirement, "Type").text or "").upper() == "GPU":
                yield rule.hit(
                    requirement.span or resource.span,
                    f"`{resource.name}` asks for a GPU on Fargate, which has none: it is rejected.",
                    remedy="Use the EC2 launch type, with instances that have a GPU.",
                )


def _containers(resource: Resource) -> Iterator[Value]:
    if resource.type == "AWS::ECS::Container":
        yield resource.properties
        return
    for name in _CONTAINERS:
        value = containers.read_text(resource, resource.get(name))
        yield from value.items if value.items is not None else (value,)
