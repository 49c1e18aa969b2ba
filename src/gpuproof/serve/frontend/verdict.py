"""The server's verdict about the GPU, for clients that reach only `/invocations`, such as `gpuproof deploy`.

SageMaker passes the header `X-Amzn-SageMaker-Custom-Attributes` on to the container:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuproof.gpu.cuda_compat import DriverLibrary
from gpuproof.serve.observability.gpu_monitor import GpuUsage, grown_memory
from gpuproof.version import __version__

HEADER = "x-amzn-sagemaker-custom-attributes"
VERDICT = "gpuproof-verdict"
"""The value of the header with which a request to `/invocations` asks for the verdict; its body is ignored."""

MIN_GROWTH = 64 * 1024 * 1024
"""Every process that computes on a GPU uses more of its memory than this, in bytes."""


def server_verdict(
    devices: Sequence[str],
    problems: Sequence[str],
    gpus: Sequence[GpuUsage],
    answered: int,
    driver: DriverLibrary | None = None,
) -> dict[str, Any]:
    """The verdict as a JSON document.

    Args:
        devices: the kind of each worker's device: `cuda` or `cpu`.
        problems: why a model is on the CPU, or what else makes the server unhealthy.
        answered: number of requests that were answered.
        driver: the driver library of the workers; `None` without a driver.

    Returns:
        `verdict` is `used`, `cpu-only`, `no-gpu` or `unknown`; `reason` explains it.
    """
    verdict, reason = _decide(devices, problems, gpus)
    return {
        "version": 1,
        "verdict": verdict,
        "reason": reason,
        "server": f"gpuproof {__version__}",
        "workers": list(devices),
        "requests": answered,
        "driver_version": driver.driver if driver is not None else None,
        "cuda_compat": driver.compat if driver is not None else None,
        "gpus": [
            {
                "index": gpu.index,
                "memory_grown_bytes": grown_memory(gpu),
                "max_utilization_percent": gpu.max_utilization,
            }
            for gpu in gpus
        ],
    }


def _decide(devices: Sequence[str], problems: Sequence[str], gpus: Sequence[GpuUsage]) -> tuple[str, str]:
    if devices and "cuda" not in devices:
        return "no-gpu", "no GPU is visible in the container"
    if problems:
        return "cpu-only", problems[0]
    used = [gpu for gpu in gpus if (grown_memory(gpu) or 0) >= MIN_GROWTH or (gpu.max_utilization or 0) > 0]
    if not devices or not used:
        return "unknown", "the GPUs have shown neither utilization nor allocated memory so far"
    if len(used) < len(gpus):
        return "used", f"{len(used)} of {len(gpus)} GPUs worked or hold the model"
    return "used", "the GPU worked or holds the model" if len(gpus) == 1 else f"all {len(gpus)} GPUs worked"
