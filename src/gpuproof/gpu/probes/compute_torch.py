"""Probe for the user's interpreter: computes with PyTorch on every GPU and compares with the CPU's result.

Its argument is a JSON object: `device`, `cuda` or `cpu`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from gpuproof.gpu.probe_record import emit

# Largest correct deviation, as a share of the largest value of the result: the inputs are rounded to the type first and
# the CPU computes in float64, so only the rounding of sums and of the result remains.
TOLERANCE = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 2e-2}
BFLOAT16_SINCE = 8
SIZE = 256


def main() -> None:
    wanted = json.loads(sys.argv[2])
    emit("step", name="import torch")
    torch: Any = importlib.import_module("torch")
    torch.backends.cudnn.allow_tf32 = False  # its three decimal digits would look like an error
    torch.manual_seed(0)
    count = torch.cuda.device_count() if wanted["device"] == "cuda" else 1
    for index in range(count):
        device = f"cuda:{index}" if wanted["device"] == "cuda" else "cpu"
        for dtype in types_of(torch, device):
            for name, work in (("matmul", matmul), ("convolution", convolution)):
                attempt(torch, index, device, name, dtype, work)
    emit("done", version=str(torch.__version__))


def types_of(torch: Any, device: str) -> list[str]:
    if device == "cpu" or torch.cuda.get_device_capability(device)[0] >= BFLOAT16_SINCE:
        return ["float32", "float16", "bfloat16"]
    return ["float32", "float16"]


def attempt(torch: Any, index: int, device: str, name: str, dtype: str, work: Any) -> None:
    emit("step", name=f"{name} in {dtype} on GPU {index}")
    fact = {"gpu": index, "name": name, "dtype": dtype, "tolerance": TOLERANCE[dtype]}
    try:
        result, expected = work(torch, device, getattr(torch, dtype))
        difference = (result.double().cpu() - expected).abs().max() / expected.abs().max()
        emit("work", device=str(result.device), deviation=float(difference), **fact)
    except Exception as error:  # noqa: BLE001 - every error is the result
        emit("work", error=f"{type(error).__name__}: {error}"[:1000], **fact)


def matmul(torch: Any, device: str, dtype: Any) -> tuple[Any, Any]:
    a, b = (torch.rand(SIZE, SIZE).sub(0.5).to(dtype) for _ in range(2))
    return a.to(device) @ b.to(device), a.double() @ b.double()


def convolution(torch: Any, device: str, dtype: Any) -> tuple[Any, Any]:
    images = torch.rand(4, 16, 32, 32).sub(0.5).to(dtype)
    kernel = torch.rand(32, 16, 3, 3).sub(0.5).to(dtype)
    result = torch.nn.functional.conv2d(images.to(device), kernel.to(device), padding=1)
    return result, torch.nn.functional.conv2d(images.double(), kernel.double(), padding=1)


if __name__ == "__main__":
    main()
