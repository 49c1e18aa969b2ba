"""Detects AWS service, instance type and region from files and firmware; uses the network only on EC2."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from gpuproof.doctor.machine import Machine, read_once
from gpuproof.doctor.readings.imds import InstanceMetadata, query_metadata

_TYPE = re.compile(
    r"(?:ml\.)?[a-z][a-z0-9-]*\.(?:metal|(?:\d+x?)?(?:nano|micro|small|medium|large|xlarge)|metal-\S+)"
)
_SAGEMAKER_FILES = (
    ("/opt/ml/input/config/resourceconfig.json", ("current_instance_type",)),
    ("/opt/ml/config/processingjobconfig.json", ("ProcessingResources", "ClusterConfig", "InstanceType")),
)
"""Where SageMaker writes the instance type: for training, and for processing."""


@dataclass(frozen=True)
class InstanceIdentity:
    """Where this machine runs.

    Args:
        service: `ec2` or `sagemaker`; `None` if nothing indicates AWS.
        instance_type: `g5.xlarge`, or `ml.g5.xlarge` on SageMaker.
        source: where the type comes from: `--instance-type`, a file, a variable, the firmware, the metadata service.
        user_given: whether the user gave the type.
        on_aws: whether the machine itself is recognizable as AWS's.
        detected_type: the machine's own type, if the user gave another.
        region: such as `eu-west-1`; `None` if unknown.
    """

    service: str | None = None
    instance_type: str | None = None
    source: str = ""
    user_given: bool = False
    on_aws: bool = False
    detected_type: str | None = None
    region: str | None = None


def read_instance_identity(machine: Machine) -> InstanceIdentity:
    """Detect where this machine runs; `Machine.instance_type` and `Machine.region` take precedence."""
    return read_once(machine, "instance identity", _read_identity)


def read_instance_metadata(machine: Machine) -> InstanceMetadata | None:
    """Query EC2's metadata service; `None` outside EC2, on SageMaker, or if the user has disabled it."""
    return read_once(machine, "instance metadata", _read_metadata)


def on_ec2(machine: Machine) -> bool:
    """Whether the firmware is EC2's, or the user has set a metadata endpoint."""
    if machine.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT"):
        return True
    vendor = machine.read_text("/sys/class/dmi/id/sys_vendor") or ""
    bios = machine.read_text("/sys/class/dmi/id/bios_version") or ""
    hypervisor = machine.read_text("/sys/hypervisor/uuid") or ""
    return "Amazon EC2" in vendor or "amazon" in bios.lower() or hypervisor.lower().startswith("ec2")


def _read_identity(machine: Machine) -> InstanceIdentity:
    found = _on_sagemaker(machine) or _on_ec2(machine) or InstanceIdentity(region=_region(machine))
    given = machine.instance_type
    if given is None:
        return found
    service = "sagemaker" if given.startswith("ml.") else "ec2"
    detected = found.instance_type
    other = detected if detected is not None and _ec2_type(detected) != _ec2_type(given) else None
    return InstanceIdentity(service, given, "--instance-type", True, found.on_aws, other, found.region)


def _on_sagemaker(machine: Machine) -> InstanceIdentity | None:
    vendor = machine.read_text("/sys/class/dmi/id/sys_vendor")
    if vendor is not None and not on_ec2(machine):
        return None  # SageMaker's hosts are EC2 instances: this is an emulation of its contract, such as `gpuproof run`
    named = machine.environment.get("SM_CURRENT_INSTANCE_TYPE")
    candidates = [("SM_CURRENT_INSTANCE_TYPE", named)]
    candidates += [(path, _json_value(machine.read_text(path), keys)) for path, keys in _SAGEMAKER_FILES]
    for source, name in candidates:
        if name is not None and name.startswith("ml.") and _TYPE.fullmatch(name):
            return InstanceIdentity("sagemaker", name, source, on_aws=True, region=_region(machine))
    return None


def _on_ec2(machine: Machine) -> InstanceIdentity | None:
    if not on_ec2(machine):
        return None
    # Nitro's firmware has the type, without the network: product_name is `g5.xlarge`.
    product = (machine.read_text("/sys/class/dmi/id/product_name") or "").strip()
    if _TYPE.fullmatch(product):
        return InstanceIdentity("ec2", product, "the firmware (DMI)", on_aws=True, region=_region(machine))
    metadata = read_instance_metadata(machine)
    if metadata is None or metadata.instance_type is None:
        return InstanceIdentity("ec2", on_aws=True, region=_region(machine))
    return InstanceIdentity(
        "ec2",
        metadata.instance_type,
        "the metadata service",
        on_aws=True,
        region=_region(machine) or metadata.region,
    )


def _read_metadata(machine: Machine) -> InstanceMetadata | None:
    # SageMaker passes region and role to its containers in other ways, and blocks the service for most of them.
    return query_metadata(machine.environment) if on_ec2(machine) and _on_sagemaker(machine) is None else None


def _region(machine: Machine) -> str | None:
    environment = machine.environment
    named = machine.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if named:
        return named
    # Studio and notebook instances have their own ARN: arn:aws:sagemaker:REGION:ACCOUNT:…
    arn = _json_value(machine.read_text("/opt/ml/metadata/resource-metadata.json"), ("ResourceArn",))
    parts = (arn or "").split(":")
    return parts[3] if len(parts) > 3 and parts[3] else None


def _json_value(text: str | None, keys: tuple[str, ...]) -> str | None:
    try:
        found: Any = json.loads(text or "null")
    except ValueError:
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) and found else None


def _ec2_type(name: str) -> str:
    return name.removeprefix("ml.")
