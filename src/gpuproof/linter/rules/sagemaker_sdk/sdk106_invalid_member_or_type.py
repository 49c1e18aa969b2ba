"""The request has an unknown member or one of the wrong type: botocore raises ParamValidationError.

The most frequent case: all hyperparameters of a training job must be strings, and so must a container's environment
variables. The SDK converts numbers to strings; boto3 does not.

Bad:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="train",
        HyperParameters={
            "epochs": 10,  # <-
            "lr": "0.1",
        },
        **{},
    )

Fixed:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="train",
        HyperParameters={
            "epochs": "10",
            "lr": "0.1",
        },
        **{},
    )

Bad: a misspelled member

    import boto3

    boto3.client("sagemaker").create_model(
        ModelName="model",
        ExecutionRole="arn:aws:iam::123456789012:role/sagemaker",  # <-
    )

Good:

    import boto3

    boto3.client("sagemaker").create_model(
        ModelName="model", ExecutionRoleArn="arn:aws:iam::123456789012:role/sagemaker"
    )

Quiet: an unknown value

    import boto3
    from settings import epochs

    boto3.client("sagemaker").create_training_job(TrainingJobName="train", HyperParameters={"epochs": epochs})

Quiet: an operation of the same name of another service

    import boto3

    session = boto3.Session(region_name="us-east-1")
    migration = session.client("dms")
    migration.create_endpoint(EndpointIdentifier="source", EndpointType="source", EngineName="mysql")

    def classify(comprehend):
        comprehend.create_endpoint(EndpointName="classifier", ModelArn="arn", DesiredInferenceUnits=1)
"""

import difflib

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Entries, Value
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.sdk.boto3_requests import (
    Boto3Request,
    RequestMember,
    boto3_requests,
    document_requests,
    request_members,
)
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Unit

rule = Rule(
    "SDK106",
    "invalid-member-or-type",
    Severity.ERROR,
    needs=("create_", "run_instances"),
    kinds=("shell", "makefile", "request"),
)

_WORDS = {
    "structure": "a mapping",
    "map": "a mapping",
    "list": "a list",
    "string": "a string",
    "integer": "an integer",
    "long": "an integer",
    "float": "a number",
    "double": "a number",
    "boolean": "True or False",
}
"""Names of the service model's types; other types are not checked."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    for request in boto3_requests(module):
        yield from _check(request)


@rule.unit
def check_document(unit: Unit, _: Project) -> Hits:
    for request in document_requests(unit):
        yield from _check(request)


def _check(request: Boto3Request) -> Hits:
    for part in request_members(request):
        span = part.value.span or request.span
        if part.shape is None:
            name = part.path.rpartition(".")[2]
            near = difflib.get_close_matches(name, part.owner.members, 1, 0.6)
            yield rule.hit(
                span,
                f"`{part.path}` is not a member of {request.operation.name}: botocore rejects the request.",
                remedy=f"Write {near[0]}." if near else None,
            )
        elif (wrong := _wrong_type(part)) is not None:
            yield rule.hit(
                span,
                f"`{part.path}` of {request.operation.name} must be {_WORDS[part.shape.type]}, not {wrong}: "
                "botocore rejects the request.",
                remedy=f'Write "{part.value.value}".' if _is_number_for_text(part) else None,
                fix=_quoted(part, request),
            )


def _wrong_type(part: RequestMember) -> str | None:
    """Description of a value of the wrong type; None if the type is right or unknown."""
    value = part.value
    if part.shape is None or not value.is_known or part.shape.type not in _WORDS or value.value is None:
        return None
    return None if _fits(value, part.shape.type) else _kind(value)


def _fits(value: Value, type_name: str) -> bool:
    content = value.value
    match type_name:
        case "structure" | "map":
            return isinstance(content, Entries)
        case "list":
            return isinstance(content, tuple)
        case "boolean":
            return isinstance(content, bool)
        case "string":
            return isinstance(content, str)
        case "integer" | "long":
            return isinstance(content, int) and not isinstance(content, bool)
        case _:
            return isinstance(content, (int, float)) and not isinstance(content, bool)


def _kind(value: Value) -> str | None:
    match value.value:
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {value.value}"
        case str():
            return f'the string "{value.value}"'
        case Entries():
            return "a mapping"
        case tuple():
            return "a list"
        case _:
            return None


def _is_number_for_text(part: RequestMember) -> bool:
    return part.shape is not None and part.shape.type == "string" and part.value.number is not None


def _quoted(part: RequestMember, request: Boto3Request) -> Fix | None:
    """Adds quotes around a number literal."""
    span, number = part.value.span, part.value.number
    if not _is_number_for_text(part) or span is None or span.unit is not request.span.unit:
        return None
    written = span.text[span.column - 1 : span.end_column - 1] if span.line == span.end_line else ""
    if written != str(number):
        return None
    return Fix(f'Write "{written}"', (Edit(span, f'"{written}"'),), safe=True)
