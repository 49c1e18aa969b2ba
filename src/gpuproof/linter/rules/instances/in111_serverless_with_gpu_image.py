"""A serverless endpoint serves a container that is built for GPUs, and serverless endpoints have none.

SageMaker's serverless inference runs on CPUs with at most 6 GB of memory. A `-gpu-` image is larger than the 10 GB that it
accepts for many versions, and what needs a GPU fails at the first request, or computes on the CPU.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html ("Feature exclusions": GPUs).

Bad:

    # file: main.tf
    resource "aws_sagemaker_model" "chat" {
      name               = "chat"
      execution_role_arn = "arn:aws:iam::111122223333:role/Serve"
      primary_container {
        image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker"
      }
    }

    resource "aws_sagemaker_endpoint_configuration" "chat" {
      name = "chat"
      production_variants {
        variant_name = "main"
        model_name   = "chat"
        serverless_config {  # <-
          max_concurrency   = 5
          memory_size_in_mb = 6144
        }
      }
    }

Good:

    # file: main.tf
    resource "aws_sagemaker_model" "chat" {
      name               = "chat"
      execution_role_arn = "arn:aws:iam::111122223333:role/Serve"
      primary_container {
        image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.1.0-cpu-py310-ubuntu20.04-sagemaker"
      }
    }

    resource "aws_sagemaker_endpoint_configuration" "chat" {
      name = "chat"
      production_variants {
        variant_name = "main"
        model_name   = "chat"
        serverless_config {
          max_concurrency   = 5
          memory_size_in_mb = 6144
        }
      }
    }

Quiet: another variant has an instance, and two models

    # file: endpoint.yaml
    Resources:
      Small:
        Type: AWS::SageMaker::Model
        Properties:
          PrimaryContainer: {Image: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.1.0-cpu-py310}
      Large:
        Type: AWS::SageMaker::Model
        Properties:
          PrimaryContainer: {Image: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.1.0-gpu-py310-cu118}
      Config:
        Type: AWS::SageMaker::EndpointConfig
        Properties:
          ProductionVariants:
            - VariantName: a
              ModelName: !GetAtt Small.ModelName
              ServerlessConfig: {MaxConcurrency: 5, MemorySizeInMB: 4096}
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.resources import find_resources, may_have_resources
from gpuproof.linter.knowledge.containers.public_images import public_image
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.resource import Resource

rule = Rule("IN111", "serverless-with-gpu-image", Severity.ERROR)

_MODELS = {
    "AWS::SageMaker::Model": ("PrimaryContainer", "Image"),
    "aws_sagemaker_model": ("primary_container", 0, "image"),
}
_CONFIGURATIONS = {
    "AWS::SageMaker::EndpointConfig": ("ProductionVariants", "ServerlessConfig"),
    "aws_sagemaker_endpoint_configuration": ("production_variants", "serverless_config"),
}


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if "erverless" not in unit.source or not may_have_resources(unit):
        return
    resources = find_resources(unit, project.workspace)
    images = [
        resource.get(*path) for resource in resources if (path := _MODELS.get(resource.type)) is not None
    ]
    name = (images[0].text or f"{images[0].prefix}{images[0].suffix}") if len(images) == 1 else ""
    if not _is_for_gpus(name):
        return
    for resource in resources:
        serverless = _serverless(resource)
        if serverless is not None:
            yield rule.hit(
                serverless.span or resource.span,
                f"The endpoint is serverless, which has no GPU, but its image is built for one (`{name.rpartition('/')[2]}`).",
                remedy="Use the -cpu- tag, or an instance type with a GPU.",
            )


def _is_for_gpus(name: str) -> bool:
    image = public_image(name)
    if image is not None:
        return image.device == "gpu"
    return "amazonaws.com/" in name and "-gpu-" in name


def _serverless(resource: Resource) -> Value | None:
    """The serverless settings of the variants, if all of them have some."""
    names = _CONFIGURATIONS.get(resource.type)
    if names is None:
        return None
    variants = resource.get(names[0]).items or ()
    found = [variant.at(names[1]) for variant in variants]
    settings = [value.items[0] if value.items else value for value in found if not value.is_absent]
    return settings[0] if settings and len(settings) == len(variants) and not settings[0].is_unknown else None
