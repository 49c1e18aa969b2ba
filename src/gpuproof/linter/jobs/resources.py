"""Finds the resources that a text creates: in templates, in programs of the CDK, and by requests of boto3 and the AWS CLI."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, known
from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.jobs.cdk import python, typescript
from gpuproof.linter.jobs.cdk.resources import resources_of
from gpuproof.linter.jobs.commands.aws_cli import cli_requests
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.templates.read import read_resources
from gpuproof.linter.templates.resource import Resource

_EC2 = {
    "run_instances": "",
    "create_instances": "",
    "request_spot_instances": "LaunchSpecification",
    "create_launch_template": "LaunchTemplateData",
}
"""Operations of EC2 that describe an instance, with the member that does; empty for the request itself."""
EC2_OPERATIONS = tuple(_EC2)


def may_have_resources(unit: Unit) -> bool:
    """Whether a text may create resources, by its kind and its words."""
    match unit.kind:
        case "cloudformation" | "terraform" | "request":
            return True
        case "python" | "notebook" | "cell-file" | "markdown":
            return "aws_cdk" in unit.source or any(word in unit.source for word in EC2_OPERATIONS)
        case "typescript":
            return True
        case "kubernetes":
            return "eksctl.io" in unit.source or "karpenter" in unit.source
        case "shell" | "makefile":
            return "run-instances" in unit.source or "launch-template" in unit.source
        case _:
            return False


def find_resources(unit: Unit, workspace: Workspace) -> list[Resource]:
    """The resources that a text creates, in its order."""
    if not may_have_resources(unit):
        return []
    match unit.kind:
        case "cloudformation" | "terraform":
            return read_resources(unit)
        case "request":
            return list(_of_document(unit))
        case "shell" | "makefile":
            return list(_of_commands(unit))
        case "kubernetes":
            return list(_of_nodes(unit))
        case "typescript":
            return list(resources_of(typescript.constructs(unit)))
        case _:
            module = workspace.module(unit)
            return list(_of_module(module)) if module is not None else []


def _of_module(module: Module) -> Iterator[Resource]:
    if module.imports("aws_cdk"):
        yield from resources_of(python.constructs(module))
    for call in calls_named(module, *_EC2):
        members = call.arguments()
        if call.receiver is None or call.node.args or not any(name[:1].isupper() for name in members):
            continue
        given = Entries(members)
        given.complete = not call.is_open
        yield from _instance(call.method, call.method, known(given, call.span), call.span)


def _of_commands(unit: Unit) -> Iterator[Resource]:
    for request in cli_requests(unit):
        if request.service == "ec2" and request.operation in _EC2:
            title = f"aws ec2 {request.operation.replace('_', '-')}"
            yield from _instance(title, request.operation, request.members, request.span)


def _of_document(unit: Unit) -> Iterator[Resource]:
    """The instance that a JSON or YAML file for `aws ec2 run-instances --cli-input-json` describes."""
    from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

    request = cloudformation.document(unit)
    members = request.parts
    if "LaunchTemplateData" in members:
        yield from _instance("create_launch_template", "create_launch_template", request, unit.span(1))
    elif "InstanceType" in members and {"ImageId", "MinCount", "MaxCount"} & set(members):
        yield from _instance("run_instances", "run_instances", request, unit.span(1))


def _of_nodes(unit: Unit) -> Iterator[Resource]:
    """The instance types of eksctl's node groups and of Karpenter's node pools."""
    from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

    for manifest in cloudformation.documents(unit):
        types: list[Value] = []
        for key in ("managedNodeGroups", "nodeGroups"):
            for group in manifest.at(key).items or ():
                types += [group.at("instanceType"), *(group.at("instanceTypes").items or ())]
        for requirement in manifest.at("spec", "template", "spec", "requirements").items or ():
            if requirement.at("key").text == "node.kubernetes.io/instance-type":
                types += (
                    requirement.at("values").items or () if requirement.at("operator").text == "In" else ()
                )
        title = manifest.at("kind").text or ""
        for value in types:
            if value.text is not None and "." in value.text:
                properties = known(Entries({"InstanceType": value}), value.span)
                yield Resource("request", "AWS::EC2::Instance", title, properties, value.span or unit.span(1))


def _instance(title: str, operation: str, request: Value, span: Span) -> Iterator[Resource]:
    member = _EC2[operation]
    described = request.at(member) if member else request
    if described.entries is None:
        return
    data = described.at("UserData")
    properties = Entries(
        {
            "InstanceType": described.at("InstanceType"),
            "ImageId": described.at("ImageId"),
            # A template's user data is encoded.
            "UserData": data if operation in ("run_instances", "create_instances") else UNKNOWN,
        }
    )
    properties = Entries({name: value for name, value in properties.items() if not value.is_absent})
    properties.complete = described.entries.complete
    yield Resource("request", "AWS::EC2::Instance", title, known(properties, span), span)
