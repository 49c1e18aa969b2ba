"""The notebook instance has direct internet access that bypasses your VPC; this is the default.

Any library that a cell imports can then send data out, unseen by your security groups and endpoint policies. With
`DirectInternetAccess` disabled and a subnet, traffic goes through the VPC. Checkov has the same check, CKV_AWS_122.

Bad:

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {  # <-
      name          = "lab"
      role_arn      = "arn:aws:iam::111122223333:role/lab"
      instance_type = "ml.t3.medium"
    }

Bad:

    import boto3

    boto3.client("sagemaker").create_notebook_instance(  # <-
        NotebookInstanceName="lab", InstanceType="ml.t3.medium", RoleArn="r"
    )

Good:

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {
      name                   = "lab"
      role_arn               = "arn:aws:iam::111122223333:role/lab"
      instance_type          = "ml.t3.medium"
      subnet_id              = "subnet-0123456789abcdef0"
      security_groups        = ["sg-0123456789abcdef0"]
      direct_internet_access = "Disabled"
    }

Quiet: a variable defines it

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {
      name                   = "lab"
      role_arn               = "arn:aws:iam::111122223333:role/lab"
      instance_type          = "ml.t3.medium"
      direct_internet_access = var.internet
    }

Quiet: the arguments may contain it

    import boto3

    def create(**options):
        boto3.client("sagemaker").create_notebook_instance(NotebookInstanceName="lab", **options)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

rule = Rule("SE104", "notebook-direct-internet", Severity.WARNING)

_KEYS = {
    "aws_sagemaker_notebook_instance": "direct_internet_access",
    "AWS::SageMaker::NotebookInstance": "DirectInternetAccess",
}


@rule.resource
def check_resource(resource: Resource, _: Project) -> Hits:
    key = _KEYS.get(resource.type)
    if key is not None and _is_open(resource.get(key)):
        yield _hit(resource.get(key).span or resource.span, key, f"`{resource.name}`", resource.get(key))


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source == "boto3" and job.api == "create_notebook_instance":
        value = job.argument("DirectInternetAccess")
        if _is_open(value):
            yield _hit(value.span or job.span, "DirectInternetAccess", "The notebook instance", value)


def _is_open(value: Value) -> bool:
    return value.is_absent or (value.is_known and value.text == "Enabled")


def _hit(span: Span, key: str, what: str, value: Value) -> Hit:
    why = "by default" if value.is_absent else f"by its `{key}`"
    return rule.hit(
        span,
        f"{what} has direct internet access {why}: data can leave without passing through your VPC.",
        remedy=f'Set {key} to "Disabled", with a subnet and a security group.',
    )
