"""Overhead of timing the steps of a training (`gpuproof.runtime.steps`), against the same training without.

    python bench/steps.py [--rounds 60] [--steps 5]

Two forks of a process that has imported PyTorch train the same model, one with hooks, and take turns of a few steps, so that
what else happens on the machine meets both. A step is what its process spends of a core, as the mean of the fastest tenth of
the turns; the ratios of turns that follow each other show the noise. Aim: under 1 % of a step
where one takes 10 ms or more. With CUDA events there is more to do than with the clock of this host, about 5 µs an event.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
SHAPES = {"tiny kernels": (32, 12, 1, 4), "128 tokens": (64, 12, 1, 128), "512 tokens": (64, 12, 4, 128)}
"""Width, layers, batch and length of a transformer."""


def main() -> None:
    """Measure each shape, print it, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--steps", type=int, default=5, help="steps of a turn")
    options = parser.parse_args()
    import torch  # after --help

    torch.set_num_threads(1)
    machine = f"{platform.machine()}-{os.cpu_count()}-cores"
    print(f"{machine}, Python {platform.python_version()}, torch {torch.__version__}")
    results: list[dict[str, Any]] = []
    for name, shape in SHAPES.items():
        without, with_hooks = _take_turns(shape, options.rounds, options.steps)
        before, after = _fastest(without), _fastest(with_hooks)
        # Pairs of turns that follow each other: most noise is in both.
        ratios = sorted(two / one for one, two in zip(without, with_hooks, strict=True))
        middle = statistics.median(ratios)
        quarter = len(ratios) // 4
        results.append(
            {
                "name": name,
                "shape": shape,
                "without_ms": round(before * 1000, 3),
                "with_ms": round(after * 1000, 3),
                "ratio": round(after / before, 4),
                "difference_us": round((after - before) * 1e6, 1),
                "ratio_of_pairs": round(middle, 4),
                "ratio_of_pairs_quartiles": [round(ratios[quarter], 4), round(ratios[-1 - quarter], 4)],
            }
        )
        print(json.dumps(results[-1]))
        document = {"torch": torch.__version__, "python": platform.python_version(), "results": results}
        (RESULTS / f"steps-{machine}.json").write_text(json.dumps(document, indent=1) + "\n")


def _fastest(seconds: list[float]) -> float:
    """Mean of the fastest tenth: those that other programs of the machine have disturbed least."""
    return statistics.mean(sorted(seconds)[: max(1, len(seconds) // 10)])


def _take_turns(shape: tuple[int, int, int, int], rounds: int, steps: int) -> tuple[list[float], list[float]]:
    """CPU seconds of a step in each turn, without and with hooks."""
    with tempfile.TemporaryDirectory() as folder:
        workers: list[tuple[Process, Connection]] = []
        for hooks in (False, True):
            here, there = Pipe()
            worker = Process(target=_train, args=(shape, folder if hooks else None, steps, there))
            worker.start()
            workers.append((worker, here))
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(rounds):
            # Each goes first in every other round.
            for index in (0, 1) if turn % 2 else (1, 0):
                workers[index][1].send(True)
                times[index].append(workers[index][1].recv())
        for worker, here in workers:
            here.send(False)
            worker.join()
    return times[0][3:], times[1][3:]


def _train(shape: tuple[int, int, int, int], folder: str | None, steps: int, turns: Connection) -> None:
    import torch

    recorder = None
    if folder is not None:
        os.environ["GPUPROOF_STEPS"] = folder
        from gpuproof.runtime.steps.install import install, process_recorder

        install("torch_hooks", torch)
        recorder = process_recorder()
    torch.manual_seed(0)
    width, layers, _, _ = shape
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = torch.nn.Sequential(encoder, torch.nn.Linear(width, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    batches = _batches(shape)
    while turns.recv():
        began = time.process_time()
        for _ in range(steps):
            x, y = next(batches)
            loss = torch.nn.functional.mse_loss(model(x.to("cpu")), y.to("cpu"))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss.item()
        turns.send((time.process_time() - began) / steps)
    if recorder is not None and (recorder.steps == 0 or not recorder.active):
        sys.exit("the steps were not timed")


def _batches(shape: tuple[int, int, int, int]) -> Iterator[Any]:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    width, _, batch, length = shape
    data = TensorDataset(torch.randn(batch * 50, length, width), torch.randn(batch * 50, length, 8))
    while True:
        yield from DataLoader(data, batch)


if __name__ == "__main__":
    main()
