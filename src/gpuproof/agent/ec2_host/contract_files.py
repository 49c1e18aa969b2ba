"""The files about hosts and channels that SageMaker writes below `/opt/ml` before it starts a container.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.util.atomic import write_json

AGENT = "gpuproof-agent.pyz"
"""The agent's file in the code folder."""

_CHANNELS = "input/data/"
_GROUP = "homogeneousCluster"


def code_folder(parameters: HostParameters) -> str:
    """The folder below `/opt/ml` for the agent, the source and `job.json`, which no input of the job has."""
    if parameters.kind != "training":
        return "processing/gpuproof"
    return f"{_CHANNELS}{'gpuproof' if f'{_CHANNELS}code' in parameters.inputs else 'code'}"


def take_code(downloaded: Path, folder: Path) -> None:
    """Copy the code that user data has downloaded into a folder below `/opt/ml`.

    The agent stays where it is, because this program runs from it; the rest, which is in memory, is removed.

    Raises:
        OSError: it cannot be copied, for example because the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in downloaded.iterdir():
        shutil.copyfile(path, folder / path.name)
        if path.name != AGENT:
            path.unlink()


def write_contract(ml: Path, parameters: HostParameters) -> None:
    """Write the configuration of one host.

    Args:
        ml: `/opt/ml`.

    Raises:
        OSError: it cannot be written, for example because the disk is full.
    """
    training = parameters.kind == "training"
    config = ml / ("input/config" if training else "config")
    config.mkdir(parents=True, exist_ok=True)
    write_json(config / "resourceconfig.json", _resources(parameters))
    if training:
        write_json(config / "inputdataconfig.json", _channels(parameters))
        for folder in ("input/data", "model", "output/data", "checkpoints"):
            (ml / folder).mkdir(parents=True, exist_ok=True)
    else:
        write_json(config / "processingjobconfig.json", _processing(parameters))
        for folder in parameters.outputs:
            (ml / folder).mkdir(parents=True, exist_ok=True)


def _resources(parameters: HostParameters) -> dict[str, Any]:
    hosts = list(parameters.hosts)
    group = {
        "instance_group_name": _GROUP,
        "instance_type": parameters.instance_type,
        "hosts": hosts,
    }
    return {
        "current_host": parameters.host,
        "current_instance_type": parameters.instance_type,
        "current_group_name": _GROUP,
        "hosts": hosts,
        "instance_groups": [group],
        "network_interface_name": _interface(),
    }


def _interface() -> str:
    """The network interface of the default route; its name depends on the AMI."""
    try:
        lines = Path("/proc/net/route").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        lines = []
    fields = (line.split() for line in lines)
    return next((words[0] for words in fields if len(words) > 1 and words[1] == "00000000"), "eth0")


def _channels(parameters: HostParameters) -> dict[str, Any]:
    names = [path[len(_CHANNELS) :] for path in parameters.inputs if path.startswith(_CHANNELS)]
    mode = {
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    return dict.fromkeys((*names, code_folder(parameters)[len(_CHANNELS) :]), mode)


def _processing(parameters: HostParameters) -> dict[str, Any]:
    inputs = [
        {"InputName": Path(path).name, "S3Input": {"S3Uri": uri, "LocalPath": f"/opt/ml/{path}"}}
        for path, uri in parameters.inputs.items()
    ]
    outputs = [
        {"OutputName": Path(path).name, "S3Output": {"S3Uri": uri, "LocalPath": f"/opt/ml/{path}"}}
        for path, uri in parameters.outputs.items()
    ]
    cluster = {"InstanceCount": len(parameters.hosts), "InstanceType": parameters.instance_type}
    return {
        "ProcessingJobName": parameters.run_id,
        "ProcessingInputs": inputs,
        "ProcessingOutputConfig": {"Outputs": outputs},
        "ProcessingResources": {"ClusterConfig": cluster},
    }
