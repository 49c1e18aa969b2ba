"""Names of SageMaker instance types start with `ml.`, those of EC2 do not; each service rejects the other's names.

The SDK raises ValueError for `p3.2xlarge` before anything starts; boto3 sends the request, and the service responds
with a validation error. CDK's tasks for Step Functions take the name of EC2, and write `ml.` before it.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="g5.2xlarge")  # <-

Fixed:

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge")

Bad:

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "ml.g5.2xlarge"  # <-
    }

Bad: a task of CDK, which writes the prefix itself

    import aws_cdk as cdk
    from aws_cdk import aws_ec2 as ec2, aws_stepfunctions_tasks as tasks

    stack = cdk.Stack(cdk.App(), "Training")
    tasks.SageMakerCreateTrainingJob(
        stack, "Train", training_job_name="digits",
        resource_config=tasks.ResourceConfig(
            instance_count=1, instance_type=ec2.InstanceType("ml.g5.xlarge"),  # <-
        ),
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.2xlarge",
    )

Quiet: local mode

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="local")
    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="local_gpu")

Quiet: an EC2 type on EC2

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "g5.2xlarge"
      user_data     = "#!/bin/bash\\npython3 train.py\\n"
    }
    # file: train.py
    import torch

    print(torch.zeros(1).cuda())
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instance_references import ec2_type, replace_text
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.templates.resource import Resource

rule = Rule("IN102", "ml-prefix", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.source == "gpuproof" or not job.has_contract:
        return
    for name in job.instance_type.texts:
        if name.startswith("ml.ml."):
            yield _doubled(name.removeprefix("ml."), job)
        if name.startswith("ml.") or project.catalogue.instance(name) is None:
            continue
        edits = replace_text(job.instance_type, name, f"ml.{name}")
        yield rule.hit(
            job.where(job.instance_type),
            f"`{name}` is an EC2 name; names of SageMaker types start with `ml.`, so the request is rejected.",
            remedy=f'Write "ml.{name}".',
            severity=rule.severity if job.instance_type.certainty == "known" else lowered(rule.severity),
            fix=Fix(f"Write ml.{name}", edits, safe=True) if edits else None,
        )


def _doubled(name: str, job: JobDefinition) -> Hit:
    """The finding on a task of CDK for Step Functions, which writes the prefix itself."""
    plain = name.removeprefix("ml.")
    edits = replace_text(job.instance_type, name, plain)
    return rule.hit(
        job.where(job.instance_type),
        f"`{job.api}` writes `ml.` before the instance type itself: the request asks for `ml.{name}` and is rejected.",
        remedy=f'Write "{plain}".',
        fix=Fix(f"Write {plain}", edits, safe=True) if edits else None,
    )


@rule.resource
def check_resource(resource: Resource, project: Project) -> Hits:
    value = ec2_type(resource)
    name = value.text if value is not None else None
    if value is None or name is None or not name.startswith("ml."):
        return
    plain = name.removeprefix("ml.")
    if project.catalogue.instance(plain) is None:
        return
    edits = replace_text(value, name, plain)
    yield rule.hit(
        value.span or resource.span,
        f"`{name}` is a SageMaker name, which EC2 rejects; its EC2 name is `{plain}`.",
        remedy=f'Write "{plain}".',
        fix=Fix(f"Write {plain}", edits, safe=True) if edits else None,
    )
