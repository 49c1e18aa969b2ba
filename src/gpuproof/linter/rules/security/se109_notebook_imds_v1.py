"""The notebook instance answers requests of IMDSv1, the first version of the metadata service, which need no token.

A server that forwards requests can then be made to read the credentials of the instance's role. Source: SageMaker's API,
InstanceMetadataServiceConfiguration; Checkov has the same check, CKV_AWS_371.

Bad:

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {  # <-
      name          = "lab"
      role_arn      = "arn:aws:iam::111122223333:role/lab"
      instance_type = "ml.t3.medium"
    }

Good:

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {
      name                   = "lab"
      role_arn               = "arn:aws:iam::111122223333:role/lab"
      instance_type          = "ml.t3.medium"
      subnet_id              = "subnet-0123456789abcdef0"
      security_groups        = ["sg-0123456789abcdef0"]
      direct_internet_access = "Disabled"
      instance_metadata_service_configuration {
        minimum_instance_metadata_service_version = "2"
      }
    }

Quiet: another resource

    # file: main.tf
    resource "aws_sagemaker_model" "net" {
      name               = "net"
      execution_role_arn = "arn:aws:iam::111122223333:role/lab"
    }
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.templates.resource import Resource

rule = Rule("SE109", "notebook-imds-v1", Severity.NOTE, when="strict")


@rule.resource
def check(resource: Resource, _: Project) -> Hits:
    version = _version(resource)
    if version is not None and (version.is_absent or (version.is_known and str(version.value) == "1")):
        yield rule.hit(
            version.span or resource.span,
            f"`{resource.name}` answers requests of IMDSv1, the metadata service without tokens.",
            remedy='Set the minimum version of the metadata service to "2" (IMDSv2).',
        )


def _version(resource: Resource) -> Value | None:
    if resource.type == "AWS::SageMaker::NotebookInstance":
        return resource.get("InstanceMetadataServiceConfiguration", "MinimumInstanceMetadataServiceVersion")
    if resource.type == "aws_sagemaker_notebook_instance":
        block = resource.get("instance_metadata_service_configuration")
        return block.at(0, "minimum_instance_metadata_service_version") if block.items else block
    return None
