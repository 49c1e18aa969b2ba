"""What an instance's machine is started with: its metadata, variables and programs."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gpuproof.agent.hosts import Egress
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.instances.docker.settings import DockerSettings
from gpuproof_emulator.execution.instances.metadata import instance_metadata
from gpuproof_emulator.execution.instances.programs import nvidia_smi, wrapper
from gpuproof_emulator.options import Options

if TYPE_CHECKING:
    from gpuproof.catalogue import Catalogue

_FRAMEWORKS = ("pytorch", "tensorflow")
_INTERPRETER = "/opt/{}/bin/python3"
"""The environment of a framework in its Deep Learning AMI: AWS's release notes of the AMIs."""
_MPIRUN = "/opt/amazon/openmpi/bin/mpirun"
_INHERITED = ("PIP_", "UV_", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Launch:
    """How one instance was launched.

    Args:
        metadata: what its metadata service knows, without tags.
        environment: variables of user data.
        programs: by name.
        files: scripts by path.
        docker: its Docker, in which every image exists.
        is_spot: whether it is a spot instance.
        terminates_at_shutdown: whether its own shutdown terminates it; else it is stopped.
        shows_tags: whether its metadata service shows its tags.
        local_disk: whether its type has local disks.
    """

    metadata: Mapping[str, str]
    environment: Mapping[str, str]
    programs: Mapping[str, str]
    files: Mapping[str, str]
    docker: DockerSettings
    is_spot: bool
    terminates_at_shutdown: bool
    shows_tags: bool
    local_disk: bool


def launch_of(context: Context, region: str, instance_id: str) -> Launch:
    """How an instance that moto knows was launched."""
    ec2 = context.clients.get("ec2", region)
    (reservation,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    (instance,) = reservation["Instances"]
    behaviour = ec2.describe_instance_attribute(
        InstanceId=instance_id, Attribute="instanceInitiatedShutdownBehavior"
    )["InstanceInitiatedShutdownBehavior"]["Value"]
    script = ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")["UserData"][
        "Value"
    ]
    return Launch(
        metadata=instance_metadata(
            instance, region, base64.b64decode(script).decode(), _role(context, region, instance)
        ),
        environment=_environment(context),
        programs={"nvidia-smi": nvidia_smi(_gpus(instance["InstanceType"]))},
        files=_files(context.options),
        docker=DockerSettings(python=context.options.python, pythons=context.options.pythons),
        is_spot=instance.get("InstanceLifecycle") == "spot",
        terminates_at_shutdown=behaviour == "terminate",
        shows_tags=instance.get("MetadataOptions", {}).get("InstanceMetadataTags") == "enabled",
        local_disk=_has_local_disk(instance["InstanceType"]),
    )


def _files(options: Options) -> dict[str, str]:
    """What Deep Learning AMIs have below `/opt`, as far as this computer has it."""
    files = {_INTERPRETER.format(name): wrapper(_python(options, name)) for name in _FRAMEWORKS}
    beside = Path(options.python).with_name("mpirun")
    if mpirun := str(beside) if beside.exists() else shutil.which("mpirun"):
        files[_MPIRUN] = wrapper(mpirun)
    return files


def egress_of(context: Context) -> Egress:
    """What all instances reach."""
    return Egress.from_environment(_environment(context), [urlsplit(context.clients.url).port or 80])


def _environment(context: Context) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.upper().startswith(_INHERITED)}
    return {**kept, "AWS_ENDPOINT_URL": context.clients.url, **context.options.environment}


def _role(context: Context, region: str, instance: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Name and credentials of the role of an instance's profile."""
    profile = instance.get("IamInstanceProfile", {}).get("Arn", "").rpartition("/")[2]
    if not profile:
        return None
    roles = context.clients.get("iam", region).get_instance_profile(InstanceProfileName=profile)
    found = roles["InstanceProfile"]["Roles"]
    if not found:
        return None
    sts = context.clients.get("sts", region)
    keys = sts.assume_role(RoleArn=found[0]["Arn"], RoleSessionName=instance["InstanceId"])["Credentials"]
    return found[0]["RoleName"], keys


def _has_local_disk(instance_type: str) -> bool:
    found = _catalogue().instance(instance_type)
    return found is not None and found.local_disk > 0


def _gpus(instance_type: str) -> list[str]:
    """Names of an instance type's GPUs; none for an unknown type."""
    found = _catalogue().instance(instance_type)
    return [] if found is None else [f"NVIDIA {found.gpu_model}"] * found.gpu_count


def _python(options: Options, framework: str) -> str:
    return options.pythons.get(framework, options.python)


@cache
def _catalogue() -> Catalogue:
    from gpuproof.catalogue import Catalogue  # reads files, so only on first use
    from gpuproof.catalogue.tables import Tables

    return Catalogue(Tables())
