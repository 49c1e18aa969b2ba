"""Waits until the NVIDIA driver answers with all GPUs of the instance."""

from __future__ import annotations

import subprocess
import time
from typing import Callable

from gpuproof.agent.ec2_host.aws_cli import Wait

_PAUSE_S = 1.0
_ANSWER_S = 60.0


class DriverUnusable(Exception):
    """The driver does not answer, or with another number of GPUs; the message has what nvidia-smi printed."""


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


def _list_gpus() -> tuple[int, str]:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0, f"no answer within {_ANSWER_S:.0f} s"
    except OSError as error:
        return 0, str(error)
    text = done.stdout.decode(errors="replace")
    count = sum(line.startswith("GPU ") for line in text.splitlines()) if done.returncode == 0 else 0
    return count, text
