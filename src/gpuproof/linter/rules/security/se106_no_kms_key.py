"""The volume or the output of a job is encrypted with a key of AWS, not with one of yours: you cannot restrict or revoke it.

Instance types with local NVMe disks encrypt these in hardware and reject a key for the volume. The rule is strict: many accounts
need no key of their own. Source: SageMaker's API, ResourceConfig.VolumeKmsKeyId and OutputDataConfig.KmsKeyId; Checkov has
CKV_AWS_22, 98 and 187.

Bad:

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {  # <-
      name          = "lab"
      role_arn      = "arn:aws:iam::111122223333:role/lab"
      instance_type = "ml.t3.medium"
    }

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.m5.xlarge")  # <-

Good:

    # file: main.tf
    resource "aws_sagemaker_endpoint_configuration" "net" {
      name        = "net"
      kms_key_arn = aws_kms_key.net.arn
    }

Quiet: the arguments may contain it

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.m5.xlarge", **options)
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.templates.resource import Resource

rule = Rule("SE106", "no-kms-key", Severity.NOTE, when="strict")

_KEYS = {
    "aws_sagemaker_notebook_instance": "kms_key_id",
    "aws_sagemaker_endpoint_configuration": "kms_key_arn",
    "aws_sagemaker_domain": "kms_key_id",
    "AWS::SageMaker::NotebookInstance": "KmsKeyId",
    "AWS::SageMaker::EndpointConfig": "KmsKeyId",
    "AWS::SageMaker::Domain": "KmsKeyId",
}


@rule.resource
def check_resource(resource: Resource, _: Project) -> Hits:
    key = _KEYS.get(resource.type)
    if key is not None and resource.get(key).is_absent:
        yield rule.hit(
            resource.span,
            f"`{resource.name}` has no {key}: its volume is encrypted with a key of AWS.",
            remedy=f"Set {key} to a key of AWS KMS.",
        )


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source == "sagemaker-v2" and job.kind == "training" and job.argument("output_kms_key").is_absent:
        yield rule.hit(
            job.span,
            "The model is encrypted with a key of AWS: no output_kms_key is passed.",
            remedy="Pass output_kms_key, and volume_kms_key on instance types without local disks.",
        )
