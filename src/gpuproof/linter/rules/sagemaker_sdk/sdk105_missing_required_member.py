"""The request lacks a required member: botocore rejects it before it is sent, or the service does.

`StoppingCondition` of a training job is a special case. botocore up to 1.40.60 requires it; since 1.40.76 it is
optional, and then a job that hangs only ends at the service's own limit of 24 hours, which is costly on an expensive
instance.

Bad:

    import boto3

    client = boto3.client("sagemaker")
    client.create_training_job(  # <-
        TrainingJobName="train",
        RoleArn="arn:aws:iam::123456789012:role/sagemaker",
        AlgorithmSpecification={"TrainingImage": "image:1", "TrainingInputMode": "File"},
        OutputDataConfig={"S3OutputPath": "s3://bucket/out"},
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
    )

Bad: a nested member

    import boto3

    boto3.client("sagemaker").create_endpoint_config(
        EndpointConfigName="config",
        ProductionVariants=[{"ModelName": "model", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}],  # <-
    )

Good:

    import boto3

    client = boto3.client("sagemaker")
    client.create_training_job(
        TrainingJobName="train",
        RoleArn="arn:aws:iam::123456789012:role/sagemaker",
        AlgorithmSpecification={"TrainingImage": "image:1", "TrainingInputMode": "File"},
        OutputDataConfig={"S3OutputPath": "s3://bucket/out"},
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )

Quiet: the result of another function may be complete

    import boto3
    from requests_of_mine import training_request

    boto3.client("sagemaker").create_training_job(**training_request())
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk import FormerlyRequired, formerly_required
from gpuproof.linter.sdk.boto3_requests import (
    Boto3Request,
    boto3_requests,
    document_requests,
    request_members,
)
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Unit

rule = Rule(
    "SDK105",
    "missing-required-member",
    Severity.ERROR,
    needs=("create_", "run_instances"),
    kinds=("shell", "makefile", "request"),
)

_HOUR = 'StoppingCondition={"MaxRuntimeInSeconds": 3600}'


@rule.module
def check(module: Module, _: Project) -> Hits:
    for request in boto3_requests(module):
        yield from _missing(request)
        yield from _formerly_required(request)


@rule.unit
def check_document(unit: Unit, _: Project) -> Hits:
    for request in document_requests(unit):
        yield from _missing(request)


def _missing(request: Boto3Request) -> Hits:
    """Members that every version requires, at the top level and in nested values."""
    top = [("", request.operation.input, request.members)]
    inner = [
        (part.path, part.shape, part.value) for part in request_members(request) if part.shape is not None
    ]
    for path, shape, value in [*top, *inner]:
        if shape.type != "structure" or value.entries is None or not value.is_known:
            continue
        missing = [name for name in shape.required if value.at(name).is_absent]
        if missing:
            where = f"`{path}` of {request.operation.name}" if path else request.operation.name
            yield rule.hit(
                value.span or request.span,
                f"{where} requires {' and '.join(f'`{name}`' for name in missing)}: the request is rejected.",
                remedy=f"Add {', '.join(missing)}.",
            )


def _formerly_required(request: Boto3Request) -> Hits:
    """Members that only older versions of botocore require."""
    name = request.operation.name
    if "ServerlessJobConfig" in request.members.parts:
        return
    for member in formerly_required(name):
        if (
            member.member in request.operation.input.required
            or not request.members.at(member.member).is_absent
        ):
            continue
        if member.member != "StoppingCondition":
            yield rule.hit(
                request.span,
                f"{name} requires `{member.member}` unless ServerlessJobConfig is given: the request is rejected.",
                remedy=f"Add {member.member}.",
            )
            continue
        rejected = _is_old(request, member)
        yield rule.hit(
            request.span,
            f"{name} without `StoppingCondition`: "
            + (
                f"botocore up to {member.up_to} rejects it."
                if rejected
                else f"botocore up to {member.up_to} rejects it; newer versions let a job that hangs run for 24 hours."
            ),
            remedy=f"Add {_HOUR}.",
            severity=rule.severity if rejected else Severity.WARNING,
            fix=Fix("Stop the job after one hour", (add_keyword(request.call, _HOUR),))
            if request.call
            else None,
        )


def _is_old(request: Boto3Request, member: FormerlyRequired) -> bool:
    """Whether the project pins a boto3 or botocore that still requires it; both have the same version numbers."""
    pins = pinned_versions(request.span.unit)
    limit = _numbers(member.up_to)
    pinned = (pins.get(package, "") for package in ("botocore", "boto3"))
    return any(
        constraint.startswith(("==", "<=", "~=")) and "*" not in constraint and _numbers(constraint) <= limit
        for constraint in pinned
    )


def _numbers(version: str) -> tuple[int, ...]:
    digits = "".join(letter if letter.isdigit() or letter == "." else " " for letter in version)
    return tuple(int(part) for part in digits.split()[0].split(".") if part) if digits.split() else ()
