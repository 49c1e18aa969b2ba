"""The model in a process of its own with no server: copy to the device, predict, copy back, and again.

    python -P bench/serve/bare_loop.py FOLDER ITEMS.npy ANSWERS.npy --batches 1,32 --seconds 3 [--autocast bf16]

Loads the model as `gpuproof serve` does, with the same flags. Writes the answers to the items, computed one by
one, as float32, and prints JSON: the parameters, and for each batch size `rate` (items a second), `p50` and `p99`
(seconds of a batch), and when the measurement began and ended (`time.monotonic`).
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

_FEWEST = 5
"""Batches before and within a measurement at least: the first ones choose kernels and compile."""


def main() -> int:
    """Measure the loop and print the result."""
    options = _arguments()
    sys.path.insert(0, str(options.folder / "code"))
    inference: Any = import_module("inference")
    model = inference.model_fn(str(options.folder))
    device = next(model.parameters()).device
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if options.compile or options.cuda_graphs:
        model = torch.compile(model, mode="reduce-overhead" if options.cuda_graphs else None)

    def predict(batch: torch.Tensor) -> torch.Tensor:
        with _precision(options.autocast, device):
            return inference.predict_fn(batch.to(device), model).cpu()

    items = torch.from_numpy(np.load(options.items))
    answers = torch.cat([predict(item[None]) for item in items]).float()
    np.save(options.answers, answers.numpy())
    sizes = map(int, options.batches.split(","))
    batches = {
        size: _measure(predict, items[torch.arange(size) % len(items)], options.seconds) for size in sizes
    }
    print(json.dumps({"parameters": parameters, "device": device.type, "batches": batches}))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("items", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--batches", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--autocast", choices=["bf16", "fp16"])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cuda-graphs", action="store_true")
    return parser.parse_args()


def _precision(autocast: str | None, device: torch.device) -> Any:
    if not autocast:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16 if autocast == "bf16" else torch.float16)


def _measure(predict: Any, batch: torch.Tensor, seconds: float) -> dict[str, float]:
    # `.cpu()` waits for the device, so each batch is over when its time is taken.
    _repeat(predict, batch, seconds / 4)
    began = time.monotonic()
    took = _repeat(predict, batch, seconds)
    ended = time.monotonic()
    p50, p99 = np.percentile(took, [50, 99]).tolist()
    rate = len(took) * len(batch) / (ended - began)
    return {"rate": rate, "p50": p50, "p99": p99, "began": began, "ended": ended}


def _repeat(predict: Any, batch: torch.Tensor, seconds: float) -> list[float]:
    """Durations of the batches, in seconds."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until or len(took) < _FEWEST:
        predict(batch)
        took.append(time.perf_counter() - began)
    return took


if __name__ == "__main__":
    sys.exit(main())
