"""The EC2 or SageMaker instance that this machine is, by its firmware and by the instance metadata service.

Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html,
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html (instance-type, placement/region, instance-life-cycle),
https://docs.aws.amazon.com/sagemaker/latest/dg/nbi-metadata.html (the file of notebook instances and Studio).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from gpuproof.agent.ec2_host.metadata import Metadata
from gpuproof.watch.report import Instance

_FIRMWARE = Path("/sys/class/dmi/id")
_SAGEMAKER = Path("/opt/ml/metadata/resource-metadata.json")
_ENDPOINT = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
_DISABLED = "AWS_EC2_METADATA_DISABLED"
_TYPE = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_LIFE_CYCLES = ("on-demand", "spot")


class InstanceLookup:
    """Looks the instance up in a thread: a metadata service that is blocked takes seconds.

    Args:
        environment: of a process on this machine.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._found: Instance | None = None
        threading.Thread(target=self._run, name="gpuproof-instance", daemon=True).start()

    def found(self) -> Instance | None:
        """The instance; `None` if it is unknown so far, or if this is none."""
        return self._found

    def _run(self) -> None:
        self._found = find_instance(self._environment)


def find_instance(
    environment: Mapping[str, str], firmware: Path = _FIRMWARE, sagemaker: Path = _SAGEMAKER
) -> Instance | None:
    """The instance that this machine is; `None` if it is none, or of an unknown type.

    Args:
        environment: `AWS_EC2_METADATA_DISABLED` and `AWS_EC2_METADATA_SERVICE_ENDPOINT` are honoured.
        firmware: folder of the firmware's names. Without "Amazon EC2" there, no service is asked.
        sagemaker: the file of notebook instances and Studio, whose types begin with `ml.`.
    """
    endpoint = environment.get(_ENDPOINT)
    if not endpoint and _read(firmware / "sys_vendor") != "Amazon EC2":
        return None
    metadata = None
    if environment.get(_DISABLED, "").lower() != "true":
        metadata = Metadata(urlsplit(endpoint).netloc) if endpoint else Metadata()
    # Nitro's firmware has the type: `g5.xlarge`.
    product = _read(firmware / "product_name")
    name = product if _TYPE.fullmatch(product) else _get(metadata, "instance-type")
    if not _TYPE.fullmatch(name.removeprefix("ml.")):
        return None
    arn = _resource_arn(sagemaker)
    named = next((environment[variable] for variable in _REGIONS if environment.get(variable)), None)
    region = _get(metadata, "placement/region") or (arn.split(":")[3] if arn else "") or named
    life_cycle = _get(metadata, "instance-life-cycle")
    return Instance(
        type=f"ml.{name.removeprefix('ml.')}" if arn else name,
        region=region or None,
        life_cycle=life_cycle if life_cycle in _LIFE_CYCLES and not arn else None,
    )


def _get(metadata: Metadata | None, path: str) -> str:
    return ((metadata.get(f"meta-data/{path}") if metadata is not None else None) or "").strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _resource_arn(file: Path) -> str | None:
    """`arn:aws:sagemaker:us-east-1:…`; `None` outside of notebook instances and Studio."""
    try:
        arn = str(json.loads(_read(file) or "{}").get("ResourceArn") or "")
    except (ValueError, AttributeError):
        return None
    return arn if arn.count(":") >= 5 else None
