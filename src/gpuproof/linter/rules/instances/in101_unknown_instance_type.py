"""The instance type does not exist, so the request is rejected; a pipeline fails at that step.

Families differ in their sizes: G5 has 2xlarge and 4xlarge, but no 3xlarge. SageMaker also lacks many EC2 types. The
rule compares names with the dated lists that GPUproof includes and with the service model of the installed botocore;
a family missing from both may be newer than both, and is only a warning.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.3xlarge")  # <-

Bad:

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "g5.3xlarge"  # <-
    }

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.4xlarge",
    )

Quiet: local mode, and types defined elsewhere

    import sys
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="local_gpu")
    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type=sys.argv[1])

Quiet: a placeholder

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="<instance type>")
"""

import re
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instance_references import ec2_type, replace_text
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

rule = Rule("IN101", "unknown-instance-type", Severity.ERROR)

_SAGEMAKER = re.compile(r"ml\.[a-z][a-z0-9-]*\d[a-z0-9-]*\.[a-z0-9-]+")
_EC2 = re.compile(r"[a-z][a-z0-9-]*\d[a-z0-9-]*\.[a-z0-9-]+")
_SIZES = (
    "nano",
    "micro",
    "small",
    "medium",
    "large",
    "xlarge",
    *(f"{number}xlarge" for number in (2, 3, 4, 6, 8, 9, 10, 12, 16, 18, 24, 32, 36, 48, 96)),
    "metal",
)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    for name in job.instance_type.texts:
        if _SAGEMAKER.fullmatch(name) and not _is_known(name, project):
            yield _hit(name, job.instance_type, job.where(job.instance_type), project)


@rule.resource
def check_resource(resource: Resource, project: Project) -> Hits:
    value = ec2_type(resource)
    name = value.text if value is not None else None
    # An unknown EC2 family may be newer or older than the data.
    if value is None or name is None or not _EC2.fullmatch(name) or not _siblings(name, project):
        return
    if project.catalogue.instance(name) is None:
        yield _hit(name, value, value.span or resource.span, project)


def _is_known(name: str, project: Project) -> bool:
    return bool(project.catalogue.accepted_for(name)) or project.catalogue.instance(name) is not None


def _hit(name: str, value: Value, span: Span, project: Project) -> Hit:
    siblings = _siblings(name, project)
    sure = value.is_known and bool(siblings)
    close = get_close_matches(name, siblings, n=1, cutoff=0.6)
    date = max((instance.as_of for instance in project.catalogue.tables.gpu_instances.values()), default="")
    edits = replace_text(value, name, close[0]) if close else ()
    if name.startswith("ml.") and project.catalogue.instance(name.removeprefix("ml.")) is not None:
        what = f"`{name}` exists on EC2 but not on SageMaker"
    else:
        what = f"`{name}` is not an instance type"
    listed = ", ".join(siblings[:8])
    return rule.hit(
        span,
        f"{what} (lists of {date}): the request will be rejected.",
        remedy=f"Did you mean {close[0]}? This family has {listed}." if close else _remedy(listed),
        severity=rule.severity if sure else lowered(rule.severity),
        fix=Fix(f"Use {close[0]}", edits) if edits and close else None,
    )


def _remedy(listed: str) -> str:
    return f"This family has {listed}." if listed else "Run `gpuproof gpus` to list existing types."


def _siblings(name: str, project: Project) -> list[str]:
    """Existing types of the same family, ordered by size."""
    prefix = "ml." if name.startswith("ml.") else ""
    family = name.removeprefix("ml.").partition(".")[0] + "."
    names = (prefix + family + size for size in _SIZES)
    known = project.catalogue.accepted_for if prefix else project.catalogue.instance
    return [alias for alias in names if known(alias)]
