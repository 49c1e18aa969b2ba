"""The Deep Learning AMIs that files select by name or SSM parameter, and whether their driver knows an instance's GPU."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from gpuproof.catalogue.drivers import gpu_mismatch
from gpuproof.catalogue.model import Ami, Gpu, Instance
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.project import Project
from gpuproof.linter.templates.resource import Resource

_SSM = "/aws/service/deeplearning/ami/"
_RESOURCES = {
    "aws_instance": ("ami", "instance_type"),
    "aws_spot_instance_request": ("ami", "instance_type"),
    "aws_launch_template": ("image_id", "instance_type"),
    "aws_launch_configuration": ("image_id", "instance_type"),
    "AWS::EC2::Instance": ("ImageId", "InstanceType"),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateData.ImageId", "LaunchTemplateData.InstanceType"),
    "AWS::AutoScaling::LaunchConfiguration": ("ImageId", "InstanceType"),
}
"""Resources that start EC2 instances: the properties for the AMI and the instance type."""


class Selected(NamedTuple):
    """An AMI and the instance type that boots it.

    Attributes:
        name: the name filter or SSM parameter, as the file has it.
    """

    name: Value
    instance_type: Value


class Mismatch(NamedTuple):
    """Why an AMI does not suit an instance type.

    Attributes:
        certain: whether the driver cannot know the GPU; otherwise AWS only does not list the instance family.
    """

    reason: str
    certain: bool


def of_resource(resource: Resource) -> Selected | None:
    """What a template's resource boots; None if it is no instance, or its AMI is not selected by name."""
    properties = _RESOURCES.get(resource.type)
    if properties is None:
        return None
    ami, instance_type = (resource.get(*path.split(".")) for path in properties)
    name = _named(ami)
    return Selected(name, instance_type) if name is not None else None


def written_ami(resource: Resource) -> Value | None:
    """The property with which a resource selects its AMI; None if it is no instance."""
    properties = _RESOURCES.get(resource.type)
    return resource.get(*properties[0].split(".")) if properties is not None else None


def written_type(resource: Resource) -> Value | None:
    """The instance type of a resource; None if it is no instance."""
    properties = _RESOURCES.get(resource.type)
    return resource.get(*properties[1].split(".")) if properties is not None else None


def of_module(module: Module) -> list[Selected]:
    """What the EC2 requests of a module boot, where one lookup of the module selects the AMI of all of them."""
    names = [name for call in _lookups(module) if (name := _looked_up(call)) is not None]
    if len({name.text for name in names}) != 1:
        return []
    found: list[Selected] = []
    for call in calls_named(module, "run_instances", "create_instances", "request_spot_instances"):
        request = call.argument("LaunchSpecification") if call.method == "request_spot_instances" else None
        image = request.at("ImageId") if request is not None else call.argument("ImageId")
        kind = request.at("InstanceType") if request is not None else call.argument("InstanceType")
        if image.is_unknown:
            found.append(Selected(names[0], kind))
    return found


def driver_of(selected: Selected, project: Project) -> str | None:
    """The NVIDIA driver of the AMI that is selected; None if it is not known."""
    ami = _row(selected.name.text or "", project)
    return ami.driver if ami is not None else None


def mismatch(selected: Selected, project: Project) -> tuple[Mismatch, Ami, Instance] | None:
    """Why the driver of the AMI does not suit the instance type; None if nothing is known against it."""
    ami = _row(selected.name.text or "", project)
    instance = project.catalogue.instance(selected.instance_type.text or "")
    gpu = project.catalogue.gpu(instance.gpu_model or "") if instance is not None else None
    if ami is None or instance is None or gpu is None:
        return None
    reason = _driver_reason(ami, gpu)
    if reason is not None:
        return Mismatch(reason, True), ami, instance
    if instance.arch != ami.arch:
        return (
            Mismatch(f"it is for {ami.arch} hosts, and {instance.ec2_type} is {instance.arch}", True),
            ami,
            instance,
        )
    if ami.families and instance.family not in ami.families:
        listed = ", ".join(ami.families)
        return (
            Mismatch(f"AWS's release notes list {listed} for it, not {instance.family}", False),
            ami,
            instance,
        )
    return None


def _driver_reason(ami: Ami, gpu: Gpu) -> str | None:
    match gpu_mismatch(ami.driver, gpu):
        case "too-old":
            newest = "at most " if ami.status == "ended" else ""
            return (
                f"it has {newest}NVIDIA driver {ami.driver}, and {gpu.name} needs {gpu.driver_first} or later"
            )
        case "too-new":
            return f"it has NVIDIA driver {ami.driver}, and {gpu.driver_last} was the last branch that supports {gpu.name}"
        case None:
            pass
    if gpu.kernel_module not in (ami.kernel_module, "either"):
        return f"it has NVIDIA's {ami.kernel_module} kernel module, and {gpu.name} needs the {gpu.kernel_module} one"
    return None


def _row(name: str, project: Project) -> Ami | None:
    """The line of AMIs that a name filter or SSM parameter selects; None if it may select several."""
    if _SSM in name:
        rows = (
            ami
            for ami in project.catalogue.tables.all_amis
            if ami.ssm_parameter and ami.ssm_parameter in name
        )
    else:
        # Wildcards of the filter are plain text here: a filter that is wider than a line matches none.
        rows = (ami for ami in project.catalogue.tables.all_amis if fnmatchcase(name, ami.name_pattern))
    return next(rows, None)


def _named(ami: Value) -> Value | None:
    """The name filter or SSM parameter behind a property of a template."""
    if ami.text is not None:
        return ami if _SSM in ami.text else None
    if ami.at("type").text == "aws_ssm_parameter":
        return ami.at("name") if _SSM in (ami.at("name").text or "") else None
    for block in ami.at("filter").items or ():
        if block.at("name").text == "name":
            return _only(block.at("values"))
    return None


def _lookups(module: Module) -> list[Call]:
    return calls_named(module, "describe_images", "filter", "lookup", "get_parameter")


def _looked_up(call: Call) -> Value | None:
    """The name or SSM parameter of a lookup: `describe_images`, `images.filter`, `MachineImage.lookup`, `get_parameter`."""
    if call.method == "get_parameter":
        name = call.argument("Name")
        return name if _SSM in (name.text or "") else None
    if call.method == "lookup":
        name = call.argument("name")
        return name if (name.text or "").startswith("Deep Learning") else None
    for item in call.argument("Filters").items or ():
        if item.at("Name").text == "name":
            return _only(item.at("Values"))
    return None


def _only(values: Value) -> Value | None:
    return values.items[0] if values.items is not None and len(values.items) == 1 else None
