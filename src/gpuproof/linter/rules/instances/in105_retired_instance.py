"""The instance type is no longer available, or AWS has announced its end.

P2, P3, G2, G3 and G4ad have been removed from EC2's API. SageMaker's service model still lists some of them, so the
request is accepted and then fails for lack of capacity. Current frameworks and drivers no longer support these GPUs
either. Dates and states are those of the catalogue (`gpuproof gpus`).

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.p2.xlarge")  # <-

Bad:

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "p3.2xlarge"  # <-
    }

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )

Quiet: an older GPU that is still available

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g4dn.xlarge")

Quiet: a type that is only mentioned

    # replaces ml.p3.2xlarge
    RETIRED = ["ml.p2.xlarge", "ml.p3.2xlarge"]
"""

from gpuproof.catalogue.model import Instance, JobKind
from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instance_references import ec2_type, replace_text
from gpuproof.linter.knowledge.aws.instances import find_instance, use_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Span
from gpuproof.linter.templates.resource import Resource

rule = Rule("IN105", "retired-instance", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.source == "container":
        return  # its resource is checked
    for name in job.instance_type.texts:
        instance = project.catalogue.instance(name)
        if instance is not None and instance.status in ("retired", "legacy"):
            yield _hit(
                instance, job.instance_type, job.where(job.instance_type), project, use_of(job, instance)
            )


@rule.resource
def check_resource(resource: Resource, project: Project) -> Hits:
    value = ec2_type(resource)
    instance = find_instance(project, value) if value is not None else None
    if value is not None and instance is not None and instance.status in ("retired", "legacy"):
        yield _hit(instance, value, value.span or resource.span, project, None)


def _hit(instance: Instance, value: Value, span: Span, project: Project, use: JobKind | None) -> Hit:
    gpu = f" ({instance.gpu_model})" if instance.gpu_model else ""
    if instance.status == "legacy":
        state, severity = "is scheduled to be retired", Severity.WARNING
    elif instance.gone_by is not None:
        state, severity = f"is retired: removed from EC2's API by {instance.gone_by}", rule.severity
    else:
        state, severity = "is retired", rule.severity
    if instance.retires_on is not None:
        state += f" (announced end: {instance.retires_on})"
    found = project.catalogue.replacements(instance.name, use)
    new = found[0].instance.name if found else None
    edits = replace_text(value, instance.name, new) if new else ()
    return rule.hit(
        span,
        f"`{instance.name}`{gpu} {state}.",
        remedy=f"Use {new}: {found[0].reason}" if found else None,
        evidence=(instance.note,) if instance.note else (),
        severity=severity if value.certainty == "known" else lowered(severity),
        fix=Fix(f"Use {new}", edits) if edits else None,
    )
