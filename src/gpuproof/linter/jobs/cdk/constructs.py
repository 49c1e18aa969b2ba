"""Constructs of the CDK, and the values that calls of its library return, with names that both languages share.

Names are those of the modules without `aws_`, with methods in snake case: `ec2.InstanceType.of`, `sagemaker.CfnModel`.
Source: https://docs.aws.amazon.com/cdk/api/v2/docs/aws-construct-library.html, 2026-11-29.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.source.span import Span

_RAW = frozenset({"Environment", "Hyperparameters", "HyperParameters", "Tags", "Parameters"})
"""Properties whose keys are names of the user."""
_ASSET = "Asset"
ECS_AMI = "/aws/service/ecs/optimized-ami/"


class Construct(NamedTuple):
    """One construct, or a call of a method that adds something to one.

    Attributes:
        name: `sagemaker.CfnEndpointConfig`, `add_container`.
        id: its logical name; empty if unknown.
        properties: its properties, with names as CloudFormation has them: `InstanceType`.
    """

    name: str
    id: str
    properties: Value
    span: Span


def qualified_name(dotted: str) -> str:
    """The shared name of what a program imports: `aws_cdk.aws_ec2.InstanceType.of`, `aws-cdk-lib/aws-ec2.InstanceType.of`."""
    parts = dotted.replace("aws-cdk-lib/", "").replace("@aws-cdk/", "").replace("-", "_").split(".")
    parts = [part for part in parts if part not in ("aws_cdk", "aws_cdk_lib")]
    if not parts:
        return ""
    module = parts[0].removeprefix("aws_")
    # A method is in camel case in TypeScript: `fromRegistry`.
    return ".".join([module, *(part if part[:1].isupper() else snake_case(part) for part in parts[1:])])


def snake_case(name: str) -> str:
    """`fromEcrRepository` as `from_ecr_repository`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: f"_{match.group(1)}", name).lower()


def pascal_case(name: str) -> str:
    """`instance_type` and `instanceType` as `InstanceType`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part)


def properties_of(members: Mapping[str, Value], *, complete: bool, span: Span | None) -> Value:
    """Keyword arguments or members of an object as properties."""
    entries = Entries({pascal_case(name): value for name, value in members.items()})
    entries.complete = complete
    return known(entries, span)


def with_platform(properties: Value, platform: str) -> Value:
    """The properties of a container with the platform of its task."""
    entries = Entries({**properties.parts, "Platform": known(platform)})
    entries.complete = properties.entries is not None and properties.entries.complete
    return known(entries, properties.span)


def is_raw(name: str) -> bool:
    """Whether the keys of a property are names of the user, which stay as they are."""
    return pascal_case(name) in _RAW


def enumeration(name: str, span: Span | None) -> Value | None:
    """A member of one of the library's enumerations, as `InstanceClass.G5`; None for other attributes."""
    parts = name.split(".")
    is_member = len(parts) > 2 and parts[-2][:1].isupper() and parts[-1].isupper()
    return known(".".join(parts[-2:]), span) if is_member else None


def result_of(name: str, positional: Sequence[Value], properties: Value, span: Span | None) -> Value:
    """What a call returns; properties for a class of the library, unknown for other calls.

    Args:
        name: the shared name of what is called.
        properties: its keyword arguments, or the object that is its last argument.
    """
    first = positional[0] if positional else properties.at("Name")
    match name.split(".")[-2:]:
        case ["InstanceType", "of"]:
            return _sized(positional, span)
        case [_, "InstanceType"]:
            return first.with_span(span) if positional else properties.at("InstanceTypeIdentifier")
        case ["DockerImage" | "ContainerImage", "from_registry"]:
            return first.with_span(span)
        case ["ContainerImage" | "DockerImage", "from_asset"]:
            folder = first if positional else properties.at("Directory")
            file = properties.at("File")
            return known(Entries({_ASSET: folder, "File": file}), span)
        case ["ManagedPolicy", "from_aws_managed_policy_name"]:
            return (
                known(f"arn:aws:iam::aws:policy/{first.text}", span)
                if first.text
                else Value("unknown", (), span)
            )
        case ["MachineImage", "from_ssm_parameter"]:
            return first.with_span(span)
        case ["MachineImage", "lookup"]:
            wanted = properties.at("Name")
            named = known(Entries({"name": known("name"), "values": known((wanted,))}), span)
            return known(Entries({"type": known("aws_ami"), "filter": known((named,))}), span)
        case ["MachineImage", method] if method.startswith("latest_amazon_linux"):
            return known("/aws/service/ami-amazon-linux-latest/", span)
        case ["EcsOptimizedImage", method]:
            return _of_ecs(method, positional, span)
        case ["UserData", "custom"]:
            return first.with_span(span)
        case ["ServicePrincipal" | _, "ServicePrincipal"]:
            return known(Entries({"Service": first}), span)
        case [*_, last] if last[:1].isupper():
            return properties.with_span(span)
        case _:
            return Value("unknown", (), span)


def asset_of(image: Value) -> str | None:
    """The Dockerfile that builds an image that is an asset; None for other images."""
    folder = image.at(_ASSET).text if image.entries is not None else None
    if folder is None:
        return None
    file = image.at("File").text or "Dockerfile"
    return f"{folder.rstrip('/')}/{file}"


def is_construct(name: str) -> bool:
    """Whether a name is that of a class, whose call creates a construct or a value."""
    return name.rpartition(".")[2][:1].isupper()


def sagemaker_type(value: Value) -> Value:
    """The instance type that a member of the SageMaker module's enumeration names: `InstanceType.G4DN_XLARGE`."""
    text = value.text or ""
    match = re.fullmatch(r"InstanceType\.([A-Z0-9]+)_(\w+)", text)
    if match is None:
        return value
    family, size = match.group(1).lower(), match.group(2).lower()
    number = re.fullmatch(r"(\d+)_?xlarge|xlarge_?(\d+)", size)
    size = f"{number.group(1) or number.group(2)}xlarge" if number else size
    return known(f"ml.{family}.{size}", value.span)


def _sized(parts: Sequence[Value], span: Span | None) -> Value:
    """`InstanceType.of(InstanceClass.G5, InstanceSize.XLARGE2)`: a name of EC2; unknown for descriptive classes."""
    if len(parts) == 1:
        return parts[0].with_span(span)  # `InstanceType.of("ml.g5.xlarge")` of the module for SageMaker
    texts = [part.text for part in parts]
    if len(texts) != 2 or texts[0] is None or texts[1] is None:
        return Value("unknown", (), span)
    family, size = (text.rpartition(".")[2].lower() for text in (texts[0], texts[1]))
    number = re.fullmatch(r"xlarge(\d+)", size)
    if not re.fullmatch(r"[a-z]+\d\w*", family):
        return Value("unknown", (), span)
    return known(f"{family.replace('_', '-')}.{f'{number.group(1)}xlarge' if number else size}", span)


def _of_ecs(method: str, positional: Sequence[Value], span: Span | None) -> Value:
    family = {
        "amazon_linux2": "amazon-linux-2",
        "amazon_linux2023": "amazon-linux-2023",
        "amazon_linux": "amazon-linux",
    }
    system = family.get(method)
    hardware = positional[0] if positional else ABSENT
    if system is None or hardware.is_unknown:
        return Value("unknown", (), span)
    kind = "gpu/" if (hardware.text or "").endswith("GPU") else ""
    return known(f"{ECS_AMI}{system}/{kind}recommended", span)
