"""The AMI's NVIDIA driver does not know the instance's GPU: nvidia-smi finds no device, and the job runs on the CPU.

A driver knows the GPUs that were on the market when it was released. AWS's Deep Learning AMIs keep the driver of their
framework's time, so an old line that works on g5 finds no GPU on g6e. A name filter with `most_recent` does not help:
AWS builds no new images of an old line.

Bad: an AMI of 2023 on an instance of 2024

    # file: main.tf
    data "aws_ami" "training" {
      most_recent = true
      owners      = ["amazon"]
      filter {
        name   = "name"
        values = ["Deep Learning AMI GPU PyTorch 1.13.0 (Amazon Linux 2) *"]  # <-
      }
    }

    resource "aws_instance" "gpu" {
      ami           = data.aws_ami.training.id
      instance_type = "g6e.2xlarge"
    }

Bad: the open kernel module does not drive a V100

    import boto3

    ec2 = boto3.client("ec2")
    found = ec2.describe_images(
        Owners=["amazon"],
        Filters=[{"Name": "name", "Values": ["Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.9 (Ubuntu 24.04)*"]}],  # <-
    )
    newest = max(found["Images"], key=lambda image: image["CreationDate"])
    ec2.run_instances(ImageId=newest["ImageId"], InstanceType="p3.2xlarge", MinCount=1, MaxCount=1)

Good:

    # file: main.tf
    data "aws_ami" "training" {
      most_recent = true
      owners      = ["amazon"]
      filter {
        name   = "name"
        values = ["Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.9 (Ubuntu 24.04)*"]
      }
    }

    resource "aws_instance" "gpu" {
      ami           = data.aws_ami.training.id
      instance_type = "g6e.2xlarge"
    }

Quiet: the old AMI on the instances of its time, and without a GPU

    # file: main.tf
    data "aws_ami" "training" {
      owners = ["amazon"]
      filter {
        name   = "name"
        values = ["Deep Learning AMI GPU PyTorch 1.13.0 (Amazon Linux 2) *"]
      }
    }

    resource "aws_instance" "gpu" {
      ami           = data.aws_ami.training.id
      instance_type = "g5.xlarge"
    }

    resource "aws_instance" "cpu" {
      ami           = data.aws_ami.training.id
      instance_type = "m7i.xlarge"
    }

Quiet: another AMI boots the new instance, and a filter that every version matches

    # file: main.tf
    data "aws_ami" "old" {
      owners = ["amazon"]
      filter {
        name   = "name"
        values = ["Deep Learning AMI GPU PyTorch 1.13.0 (Amazon Linux 2) *"]
      }
    }

    data "aws_ami" "any" {
      owners      = ["amazon"]
      most_recent = true
      filter {
        name   = "name"
        values = ["Deep Learning * GPU PyTorch *"]
      }
    }

    resource "aws_instance" "gpu" {
      ami           = data.aws_ami.any.id
      instance_type = "g6e.2xlarge"
    }
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.amis import Selected, mismatch, of_module, of_resource
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

rule = Rule(
    "FW114",
    "ami-driver",
    Severity.ERROR,
    needs=("run_instances", "create_instances", "request_spot_instances"),
)


@rule.resource
def check_resource(resource: Resource, project: Project) -> Hits:
    selected = of_resource(resource)
    if selected is not None:
        yield from _check(selected, resource.span, project)


@rule.module
def check_module(module: Module, project: Project) -> Hits:
    for selected in of_module(module):
        yield from _check(selected, module.unit.span(1), project)


def _check(selected: Selected, fallback: Span, project: Project) -> Hits:
    found = mismatch(selected, project)
    if found is None:
        return
    reason, ami, instance = found
    sure = reason.certain and selected.name.is_known and selected.instance_type.is_known
    yield rule.hit(
        selected.name.span or fallback,
        f"`{selected.name.text}` on `{instance.name}`: {reason.reason}.",
        remedy=_remedy(instance.name, project),
        evidence=(f"{project.catalogue.tables.sources[ami.source].what}, {ami.as_of}",),
        severity=rule.severity if sure else lowered(rule.severity),
    )


def _remedy(instance_type: str, project: Project) -> str:
    fitting = project.catalogue.amis(instance_type)
    if not fitting:
        return "Use an AMI with a newer driver."
    listed = next((ami for ami in fitting if ami.ssm_parameter), fitting[0])
    where = f" ({listed.ssm_parameter})" if listed.ssm_parameter else ""
    return f'Use a current one, such as "{listed.name_pattern}"{where}.'
