"""Waits until the NVIDIA driver answers with all GPUs of the instance, and checks that they and the driver suit the job."""

from __future__ import annotations

import re
import subprocess
import time
from typing import Callable

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.transfer.aws_cli import Wait
from gpuproof.util.versions import version_key

_PAUSE_S = 1.0
_ANSWER_S = 60.0
_MEMORY = re.compile(r"-\d+GB$")

_CURRENT = ("T4", "T4G", "A10G", "A100", "L4", "L40S", "H100", "H200", "B200", "GB200", "B300")
MODELS = ("K520", "K80", "M60", "V100", *_CURRENT, "RTX PRO 6000", "RTX PRO 4500")
"""The NVIDIA GPUs of the catalogue, as words of the names that drivers report."""


class DriverUnusable(Exception):
    """The driver does not answer, is too old, or has other GPUs; the message has what nvidia-smi printed."""


def wait_for_driver(
    gpus: int, seconds: float, wait: Wait, clock: Callable[[], float] = time.monotonic
) -> None:
    """Wait until `nvidia-smi -L` lists all GPUs.

    Args:
        gpus: number of GPUs of the instance type.
        seconds: how long to wait.
        wait: called between attempts.

    Raises:
        DriverUnusable: it still does not.
    """
    end = clock() + seconds
    while True:
        count, text = _list_gpus()
        if count == gpus:
            return
        if clock() >= end:
            break
        wait(_PAUSE_S)
    shown = " ".join(text.split())[:500] or "nothing"
    if count:
        raise DriverUnusable(
            f"the NVIDIA driver sees {count} of the instance type's {gpus} GPUs: nvidia-smi printed {shown}"
        )
    raise DriverUnusable(
        f"the NVIDIA driver did not answer within {seconds:.0f} s: nvidia-smi printed {shown}"
    )


def check_gpus(parameters: HostParameters) -> None:
    """Compare the GPUs and the driver with what the instance type has and the framework needs.

    What nvidia-smi does not say, or names that are not in the table, are no error.

    Raises:
        DriverUnusable: a GPU is another model, or the driver is too old.
    """
    if not parameters.gpu_name and not parameters.min_driver:
        return
    _, text = _nvidia_smi("--query-gpu=name,driver_version", "--format=csv,noheader")
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    for index, (name, driver) in enumerate(row for row in rows if len(row) == 2):
        found = _model(name)
        if found and parameters.gpu_name and found != _family(parameters.gpu_name):
            raise DriverUnusable(
                f"{parameters.instance_type} should have {parameters.gpu_name}, but GPU {index} is {name}: the job was "
                "planned for other hardware. Choose another instance type (--instance-type)."
            )
        oldest, known = version_key(parameters.min_driver), version_key(driver)
        if oldest and known and known < oldest:
            raise DriverUnusable(
                f"{parameters.min_driver_for} needs NVIDIA driver {parameters.min_driver} or later, but the AMI has {driver}: "
                "the job would see no GPU, although nvidia-smi looks fine. Use a newer AMI (ec2: ami), or a version of the "
                "framework for older CUDA (framework_version)."
            )


def _model(name: str) -> str:
    """The model that a driver's name of a GPU means; empty if it is unknown: `A100` for `NVIDIA A100-SXM4-40GB`."""
    words = set(name.upper().replace("-", " ").split())
    return next((model for model in MODELS if words.issuperset(model.split())), "")


def _family(name: str) -> str:
    """The model of a name in the catalogue: `A100` for `A100-40GB`."""
    return _MEMORY.sub("", name.upper()).replace("-", " ")


def _list_gpus() -> tuple[int, str]:
    status, text = _nvidia_smi("-L")
    count = sum(line.startswith("GPU ") for line in text.splitlines()) if status == 0 else 0
    return count, text


def _nvidia_smi(*words: str) -> tuple[int, str]:
    """The exit status of nvidia-smi, and what it printed."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {_ANSWER_S:.0f} s"
    except OSError as error:
        return 1, str(error)
    return done.returncode, done.stdout.decode(errors="replace")
