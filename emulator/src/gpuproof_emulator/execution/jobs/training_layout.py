"""`/opt/ml` of a training job's instance: folders, configuration files and channels, as on SageMaker.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof_emulator.execution.container_paths import ROOT, host_path, is_below
from gpuproof_emulator.execution.jobs.instances import write_json
from gpuproof_emulator.execution.s3_sync import download_source

_GROUP = "homogeneousCluster"
CHECKPOINTS = "/opt/ml/checkpoints"
"""Default of `CheckpointConfig.LocalPath`."""


def write_layout(ml: Path, document: dict[str, Any], host: str, hosts: list[str], interface: str) -> None:
    """Create the folders and configuration files.

    Args:
        interface: the hosts' network interface.
    """
    for folder in ("input/data", "model", "output/data", "checkpoints"):
        (ml / folder).mkdir(parents=True, exist_ok=True)
    config = ml / "input" / "config"
    write_json(config / "hyperparameters.json", document.get("HyperParameters") or {})
    write_json(config / "inputdataconfig.json", input_data_config(document))
    write_json(config / "resourceconfig.json", resource_config(document, host, hosts, interface))
    write_json(config / "init-config.json", init_config(document))
    if checkpoints := document.get("CheckpointConfig"):
        write_json(config / "checkpointconfig.json", {"LocalPath": CHECKPOINTS, **checkpoints})


def input_data_config(document: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The content of `inputdataconfig.json`."""
    mode = document["AlgorithmSpecification"].get("TrainingInputMode", "File")
    found: dict[str, dict[str, str]] = {}
    for channel in document.get("InputDataConfig") or ():
        source = channel["DataSource"].get("S3DataSource", {})
        found[channel["ChannelName"]] = {
            **({"ContentType": channel["ContentType"]} if channel.get("ContentType") else {}),
            "TrainingInputMode": channel.get("InputMode") or mode,
            "S3DistributionType": source.get("S3DataDistributionType", "FullyReplicated"),
            "RecordWrapperType": channel.get("RecordWrapperType", "None"),
        }
    return found


def init_config(document: dict[str, Any]) -> dict[str, Any]:
    """The content of `init-config.json`, which SageMaker's instances have and AWS does not document."""
    mode = document["AlgorithmSpecification"].get("TrainingInputMode", "File")
    return {"inputMode": mode.upper(), "channels": input_data_config(document)}


def resource_config(document: dict[str, Any], host: str, hosts: list[str], interface: str) -> dict[str, Any]:
    """The content of `resourceconfig.json`."""
    groups = instance_groups(document, hosts)
    own = next(group for group in groups if host in group["hosts"])
    return {
        "current_host": host,
        "current_instance_type": own["instance_type"],
        "current_group_name": own["instance_group_name"],
        "hosts": hosts,
        "instance_groups": groups,
        "network_interface_name": interface,
    }


def instance_groups(document: dict[str, Any], hosts: list[str]) -> list[dict[str, Any]]:
    """The instance groups with their hosts, as in `resourceconfig.json`."""
    config = document["ResourceConfig"]
    groups = config.get("InstanceGroups") or [
        {"InstanceGroupName": _GROUP, **config, "InstanceCount": len(hosts)}
    ]
    found: list[dict[str, Any]] = []
    left = list(hosts)
    for group in groups:
        count = int(group["InstanceCount"])
        found.append(
            {
                "instance_group_name": group["InstanceGroupName"],
                "instance_type": group["InstanceType"],
                "hosts": left[:count],
            }
        )
        left = left[count:]
    return found


def download_channels(s3: Any, ml: Path, document: dict[str, Any], number: int, count: int) -> None:
    """Download every channel of one host.

    Args:
        number: of the host, from 0.
        count: number of hosts.

    Raises:
        DownloadFailed: data does not exist or cannot be stored.
    """
    for channel in document.get("InputDataConfig") or ():
        folder = ml / "input" / "data" / channel["ChannelName"]
        source = channel["DataSource"].get("S3DataSource")
        if source is None:
            # File systems in the user's VPC are unreachable.
            folder.mkdir(parents=True, exist_ok=True)
            continue
        download_source(s3, source, folder, number, count, unzip=channel.get("CompressionType") == "Gzip")


def checkpoint_folder(ml: Path, config: dict[str, Any]) -> Path | None:
    """The folder of checkpoints on the instance's disk; None if the path is not below `/opt/ml`."""
    path = config.get("LocalPath") or CHECKPOINTS
    return host_path(ml, path) if is_below(path, ROOT) else None
