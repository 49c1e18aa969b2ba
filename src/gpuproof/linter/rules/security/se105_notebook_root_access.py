"""The notebook instance gives its users root access, which is the default: they can change what its role and network allow.

With root access disabled, lifecycle configurations still run as root. Source: SageMaker's API, CreateNotebookInstance; Checkov
has the same check, CKV_AWS_307.

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
      root_access            = "Disabled"
      subnet_id              = "subnet-0123456789abcdef0"
      security_groups        = ["sg-0123456789abcdef0"]
      direct_internet_access = "Disabled"
    }

Quiet: a variable defines it

    # file: main.tf
    resource "aws_sagemaker_notebook_instance" "lab" {
      name          = "lab"
      role_arn      = "arn:aws:iam::111122223333:role/lab"
      instance_type = "ml.t3.medium"
      root_access   = var.root
    }
"""

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.templates.resource import Resource

rule = Rule("SE105", "notebook-root-access", Severity.NOTE, when="strict")

_KEYS = {
    "aws_sagemaker_notebook_instance": "root_access",
    "AWS::SageMaker::NotebookInstance": "RootAccess",
}


@rule.resource
def check(resource: Resource, _: Project) -> Hits:
    key = _KEYS.get(resource.type)
    if key is None:
        return
    value = resource.get(key)
    if value.is_absent or (value.is_known and value.text == "Enabled"):
        yield rule.hit(
            value.span or resource.span,
            f"Users of `{resource.name}` have root access{' by default' if value.is_absent else ''}.",
            remedy=f'Set {key} to "Disabled".',
        )
