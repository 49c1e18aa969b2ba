"""Where in AWS this machine is, found from what is on it; the network is asked only where EC2's own marks are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from gpuproof.doctor.machine import Machine, read_once
from gpuproof.doctor.readings.imds import Metadata, ask

_TYPE = re.compile(
    r"(?:ml\.)?[a-z][a-z0-9-]*\.(?:metal|(?:\d+x?)?(?:nano|micro|small|medium|large|xlarge)|metal-\S+)"
)
_SAGEMAKER_FILES = (
    ("/opt/ml/input/config/resourceconfig.json", ("current_instance_type",)),
    ("/opt/ml/config/processingjobconfig.json", ("ProcessingResources", "ClusterConfig", "InstanceType")),
)
"""Where SageMaker says what it runs on: for training, and for processing."""


@dataclass(frozen=True)
class Place:
    """Where this machine is.

    Args:
        service: `ec2` or `sagemaker`; `None` where nothing points to AWS.
        instance_type: `g5.xlarge`, or `ml.g5.xlarge` on SageMaker.
        told_by: who says so: `--instance-type`, a file, a variable, the firmware, the metadata service.
        asked: whether the user named the type.
        on_aws: whether the machine itself bears marks of AWS.
        itself: what the machine itself says, where the user named another.
        region: such as `eu-west-1`; `None` where nothing on the machine tells.
    """

    service: str | None = None
    instance_type: str | None = None
    told_by: str = ""
    asked: bool = False
    on_aws: bool = False
    itself: str | None = None
    region: str | None = None


def read_instance_identity(machine: Machine) -> Place:
    """Where this machine is; what the user says goes first."""
    return read_once(machine, "place", _find)


def read_instance_metadata(machine: Machine) -> Metadata | None:
    """What EC2's metadata service says; `None` away from EC2, on SageMaker, or where the user has turned it off."""
    return read_once(machine, "metadata", _ask_metadata)


def on_ec2(machine: Machine) -> bool:
    """Whether the firmware says EC2, or the user points to a metadata service."""
    if machine.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        return True
    vendor = machine.read_text("/sys/class/dmi/id/sys_vendor") or ""
    bios = machine.read_text("/sys/class/dmi/id/bios_version") or ""
    hypervisor = machine.read_text("/sys/hypervisor/uuid") or ""
    return "Amazon EC2" in vendor or "amazon" in bios.lower() or hypervisor.lower().startswith("ec2")


def _find(machine: Machine) -> Place:
    found = _on_sagemaker(machine) or _on_ec2(machine) or Place(region=_region(machine))
    asked = machine.instance_type
    if asked is None:
        return found
    service = "sagemaker" if asked.startswith("ml.") else "ec2"
    itself = found.instance_type
    other = itself if itself is not None and _ec2_type(itself) != _ec2_type(asked) else None
    return Place(service, asked, "--instance-type", True, found.on_aws, other, found.region)


def _on_sagemaker(machine: Machine) -> Place | None:
    vendor = machine.read_text("/sys/class/dmi/id/sys_vendor")
    if vendor is not None and not on_ec2(machine):
        return None  # SageMaker's hosts are EC2's: here somebody plays its contract, as `gpuproof run` does
    named = machine.environment.get("SM_CURRENT_INSTANCE_TYPE")
    told = [("SM_CURRENT_INSTANCE_TYPE", named)]
    told += [(path, _dig(machine.read_text(path), keys)) for path, keys in _SAGEMAKER_FILES]
    for by, name in told:
        if name is not None and name.startswith("ml.") and _TYPE.fullmatch(name):
            return Place("sagemaker", name, by, on_aws=True, region=_region(machine))
    return None


def _on_ec2(machine: Machine) -> Place | None:
    if not on_ec2(machine):
        return None
    # Nitro's firmware names the type itself, without the network: product_name is `g5.xlarge`.
    product = (machine.read_text("/sys/class/dmi/id/product_name") or "").strip()
    if _TYPE.fullmatch(product):
        return Place("ec2", product, "the firmware (DMI)", on_aws=True, region=_region(machine))
    metadata = read_instance_metadata(machine)
    if metadata is None or metadata.instance_type is None:
        return Place("ec2", on_aws=True, region=_region(machine))
    return Place(
        "ec2",
        metadata.instance_type,
        "the metadata service",
        on_aws=True,
        region=_region(machine) or metadata.region,
    )


def _ask_metadata(machine: Machine) -> Metadata | None:
    # SageMaker gives its containers region and role by themselves, and keeps the service from most of them.
    return ask(machine.environment) if on_ec2(machine) and _on_sagemaker(machine) is None else None


def _region(machine: Machine) -> str | None:
    environment = machine.environment
    named = machine.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if named:
        return named
    # Studio and notebook instances say who they are: arn:aws:sagemaker:REGION:ACCOUNT:…
    arn = _dig(machine.read_text("/opt/ml/metadata/resource-metadata.json"), ("ResourceArn",))
    parts = (arn or "").split(":")
    return parts[3] if len(parts) > 3 and parts[3] else None


def _dig(text: str | None, keys: tuple[str, ...]) -> str | None:
    try:
        found: Any = json.loads(text or "null")
    except ValueError:
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) and found else None


def _ec2_type(name: str) -> str:
    return name.removeprefix("ml.")
