"""An instance with a GPU starts an AMI that has no NVIDIA driver, and nothing installs one.

Plain Ubuntu and Amazon Linux, and the standard AMIs of ECS and EKS, see the GPU as an unknown PCI device: `nvidia-smi` does not
exist, `torch.cuda.is_available()` is False, ECS places no task with a GPU, and a Kubernetes node offers no `nvidia.com/gpu`.
The Deep Learning AMIs and the GPU variants have a driver. User data that installs one, or runs a script that is not seen, is
not reported. Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/install-nvidia-driver.html.

Bad: plain Ubuntu

    # file: main.tf
    data "aws_ami" "ubuntu" {
      most_recent = true
      owners      = ["099720109477"]
      filter {
        name   = "name"
        values = ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"]
      }
    }

    resource "aws_instance" "trainer" {
      ami           = data.aws_ami.ubuntu.id  # <-
      instance_type = "g5.xlarge"
      user_data     = "#!/bin/bash\\npip install torch\\n"
    }

Bad: a node group of EKS

    # file: nodes.tf
    resource "aws_eks_node_group" "gpu" {
      cluster_name   = "ml"
      node_role_arn  = "arn:aws:iam::111122223333:role/nodes"
      subnet_ids     = ["subnet-1"]
      instance_types = ["g5.xlarge"]
      ami_type       = "AL2_x86_64"  # <-
      scaling_config {
        desired_size = 1
        max_size     = 2
        min_size     = 0
      }
    }

Good:

    # file: nodes.tf
    resource "aws_eks_node_group" "gpu" {
      cluster_name   = "ml"
      node_role_arn  = "arn:aws:iam::111122223333:role/nodes"
      subnet_ids     = ["subnet-1"]
      instance_types = ["g5.xlarge"]
      ami_type       = "AL2_x86_64_GPU"
      scaling_config {
        desired_size = 1
        max_size     = 2
        min_size     = 0
      }
    }

Quiet: user data installs the driver, and an instance without a GPU

    # file: main.tf
    data "aws_ami" "ubuntu" {
      most_recent = true
      filter {
        name   = "name"
        values = ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"]
      }
    }

    resource "aws_instance" "trainer" {
      ami           = data.aws_ami.ubuntu.id
      instance_type = "g5.xlarge"
      user_data     = "#!/bin/bash\\napt-get install -y nvidia-driver-550-server\\n"
    }

    resource "aws_instance" "bastion" {
      ami           = data.aws_ami.ubuntu.id
      instance_type = "t3.small"
    }
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.aws import amis
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.knowledge.aws.plain_amis import plain_ami
from gpuproof.linter.knowledge.aws.user_data import user_data_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.templates.resource import Resource

rule = Rule("FW116", "ami-without-driver", Severity.WARNING)

_NODES = {
    "aws_eks_node_group": ("ami_type", "instance_types"),
    "AWS::EKS::Nodegroup": ("AmiType", "InstanceTypes"),
}
_MAY_INSTALL = re.compile(
    r"nvidia|cuda|ubuntu-drivers|\bgrid\b|git clone|\bcurl\b|\bwget\b|aws s3|ansible|\bsource\b|gpu|docker|\.run\b",
    re.IGNORECASE,
)
"""User data that may install a driver, or run something that does."""


@rule.resource
def check(resource: Resource, project: Project) -> Hits:
    named, types = _selected(resource)
    ami = plain_ami(named.text) if named is not None and named.text is not None else None
    if named is None or ami is None or not types:
        return
    instances = [find_instance(project, name) for name in types]
    if not all(instance is not None and instance.gpu_count for instance in instances):
        return
    data = user_data_of(resource, project.workspace)
    if data is not None and (_MAY_INSTALL.search(data.text) or not data.is_known):
        return
    first = instances[0]
    gpu = first.gpu_model if first is not None else "a GPU"
    yield rule.hit(
        _written(resource).span or resource.span,
        f"`{resource.name}` has {gpu} (`{types[0]}`) and {ami.what}, which has no NVIDIA driver: the GPU cannot be used.",
        remedy=f"Use {ami.instead}.",
    )


def _selected(resource: Resource) -> tuple[Value | None, tuple[str, ...]]:
    """The AMI that a resource selects by name, and its instance types."""
    if (names := _NODES.get(resource.type)) is not None:
        kind, types = (resource.get(name) for name in names)
        listed = tuple(item.text for item in types.items or () if item.text is not None)
        return kind, listed if len(listed) == len(types.items or ()) else ()
    chosen = amis.of_resource(resource)
    written = amis.written_ami(resource)
    if chosen is None and written is not None and written.text is not None:
        kind = amis.written_type(resource)
        return written, kind.texts if kind is not None else ()
    return (chosen.name, chosen.instance_type.texts) if chosen is not None else (None, ())


def _written(resource: Resource) -> Value:
    """The property that selects the AMI."""
    if (names := _NODES.get(resource.type)) is not None:
        return resource.get(names[0])
    return amis.written_ami(resource) or Value("absent")
