"""The resources of CloudFormation that constructs of the CDK create."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.jobs.cdk.constructs import Construct, sagemaker_type
from gpuproof.linter.templates.resource import Resource

_SERVICES = {
    "sagemaker": "SageMaker",
    "ec2": "EC2",
    "batch": "Batch",
    "ecs": "ECS",
    "iam": "IAM",
    "stepfunctions": "StepFunctions",
    "autoscaling": "AutoScaling",
    "eks": "EKS",
}
_INSTANCES = frozenset(
    {"ec2.Instance", "ec2.LaunchTemplate", "ec2.BastionHostLinux", "autoscaling.AutoScalingGroup"}
)
_STATEMENTS = ("add_to_policy", "add_to_role_policy")
_COMPUTE = frozenset({"batch.ManagedEc2EcsComputeEnvironment", "batch.ManagedEc2EksComputeEnvironment"})


def resources_of(constructs: list[Construct]) -> Iterator[Resource]:
    """The resources of the constructs of one program, in order."""
    roles = [construct for construct in constructs if construct.name == "iam.Role"]
    for construct in constructs:
        if construct.name in _STATEMENTS and len(roles) == 1:
            found = _statement(construct, roles[0])
        else:
            found = _of_construct(construct)
        if found is not None:
            yield found


def _of_construct(construct: Construct) -> Resource | None:
    service, _, name = construct.name.partition(".")
    properties = construct.properties
    if name.startswith("Cfn") and "." not in name and service in _SERVICES:
        return _resource(construct, f"AWS::{_SERVICES[service]}::{name.removeprefix('Cfn')}", properties)
    if construct.name in _INSTANCES:
        named = {
            "InstanceType": properties.at("InstanceType"),
            "ImageId": properties.at("MachineImage"),
            "UserData": properties.at("UserData"),
        }
        return _resource(construct, "AWS::EC2::Instance", _without_absent(named))
    if construct.name in _COMPUTE:
        types = properties.at("InstanceTypes")
        classes = properties.at("InstanceClasses")
        optimal = properties.at("UseOptimalInstanceClasses")
        if types.is_absent or not classes.is_absent or optimal.flag is not False:
            # The optimal classes, which have no GPU, are added by default; what else there is decides.
            types = types if classes.is_absent and not types.is_absent else Value("unknown")
        compute = known(Entries({"InstanceTypes": types}), types.span)
        return _resource(
            construct, "AWS::Batch::ComputeEnvironment", known(Entries({"ComputeResources": compute}))
        )
    if construct.name in ("batch.EcsEc2ContainerDefinition", "add_container"):
        return _container(construct)
    if name == "EndpointConfig" and service.startswith("sagemaker"):
        return _endpoint_configuration(construct)
    if construct.name == "iam.Role":
        return _role(construct)
    if construct.name in ("eks.Nodegroup", "add_nodegroup_capacity"):
        kind = properties.at("AmiType")
        name = (kind.text or "").rpartition(".")[2].replace("X86_64", "x86_64")
        named = {
            "AmiType": Value(kind.certainty, (name,), kind.span) if name else kind,
            "InstanceTypes": properties.at("InstanceTypes"),
        }
        return _resource(construct, "AWS::EKS::Nodegroup", _without_absent(named))
    return None


def _resource(construct: Construct, kind: str, properties: Value) -> Resource:
    return Resource("cdk", kind, construct.id or construct.name, properties, construct.span)


def _container(construct: Construct) -> Resource:
    """A container of Batch or ECS, with the members of their APIs."""
    properties = construct.properties
    count = properties.at("Gpu") if construct.name != "add_container" else properties.at("GpuCount")
    requirement = known(Entries({"Type": known("GPU"), "Value": count}), count.span)
    given = {
        "Image": properties.at("Image"),
        "Command": properties.at("Command"),
        "EntryPoint": properties.at("EntryPoint"),
        "ResourceRequirements": known((requirement,), count.span) if not count.is_absent else ABSENT,
        "Platform": properties.at("Platform"),
    }
    return _resource(construct, "AWS::ECS::Container", _without_absent(given))


def _endpoint_configuration(construct: Construct) -> Resource:
    """The configuration of `@aws-cdk/aws-sagemaker-alpha`, whose variants name types by an enumeration."""
    variants: list[Value] = []
    for variant in construct.properties.at("InstanceProductionVariants").items or ():
        kind = sagemaker_type(variant.at("InstanceType"))
        variants.append(known(Entries({**variant.parts, "InstanceType": kind}), variant.span))
    properties = known(
        Entries({"ProductionVariants": known(tuple(variants), construct.span)}), construct.span
    )
    return _resource(construct, "AWS::SageMaker::EndpointConfig", properties)


def _role(construct: Construct) -> Resource:
    properties = construct.properties
    given = {
        "AssumeRolePolicyDocument": properties.at("AssumedBy"),
        "ManagedPolicyArns": properties.at("ManagedPolicies"),
    }
    return _resource(construct, "AWS::IAM::Role", _without_absent(given))


def _statement(construct: Construct, role: Construct) -> Resource:
    """The statement that is added to the only role of a program."""
    statement = construct.properties
    effect = statement.at("Effect")
    given = {
        "Effect": known("Deny") if (effect.text or "").endswith("DENY") else known("Allow"),
        "Action": statement.at("Actions"),
        "Resource": statement.at("Resources"),
    }
    document = known(Entries({"Statement": known((known(Entries(given), construct.span),))}))
    policy = known(Entries({"PolicyDocument": document}))
    members = {"AssumeRolePolicyDocument": role.properties.at("AssumedBy"), "Policies": known((policy,))}
    return Resource("cdk", "AWS::IAM::Role", role.id, known(Entries(members)), construct.span)


def _without_absent(members: dict[str, Value]) -> Value:
    entries = Entries({name: value for name, value in members.items() if not value.is_absent})
    return known(entries)
