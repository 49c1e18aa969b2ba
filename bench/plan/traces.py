"""Traces the timm models of the measured tables: `python bench/plan/traces.py MEASUREMENTS TRACES [--models N] [--times N]`.

Needs PyTorch and timm. PyTorch is imported once, and each script runs in a process that is forked then.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[2])]

from bench.plan import tables  # noqa: E402

SCRIPT = Path(__file__).parent / "timm_script.py"
_SECONDS = 90


def wanted(folder: Path, count: int, times: int | None = None) -> list[tuple[str, list[str]]]:
    """The name of each trace and the script's arguments, for models in an order that is random but the same each time.

    Those of the times are what the tables say of them, or show: training has channels last, and is from before PyTorch 2; inference is
    faster than the memory traffic of norms in FP32 allows.

    Args:
        folder: of the tables.
        count: models whose memory was measured.
        times: models whose steps were measured; the same number if None.
    """
    memory, training, inference = (
        tables.timm_memory(folder),
        tables.timm_training(folder),
        tables.timm_inference(folder),
    )
    names = sorted(set(memory) | set(training) | set(inference))
    random.Random(20).shuffle(names)
    names.sort(key=lambda name: -(name in memory) - (name in training) - (name in inference))
    found: list[tuple[str, list[str]]] = []
    times = count if times is None else times
    for index, name in enumerate(names[: max(count, times)]):
        if name in memory and index < count:
            found += [(f"memory-{name}-{batch}", [name, "--batch", str(batch)]) for batch in (32, 64)]
        if index >= times:
            continue
        if row := training.get(name):
            arguments = [name, "--batch", str(row.batch), "--size", str(row.size), "--amp"]
            arguments += ["--channels-last", "--old"]
            found.append((f"training-{name}", arguments))
        if row := inference.get(name):
            arguments = [name, "--batch", str(row.batch), "--size", str(row.size), "--amp", "--inference"]
            arguments += ["--fast-norm"]
            found.append((f"inference-{name}", arguments))
    for name in sorted(set(tables.CONVNETS.values())):
        for precision, amp in (("half", ["--amp", "--channels-last"]), ("float32", [])):
            arguments = [name, "--batch", str(tables.CONVNET_BATCH), *amp]
            if name == "efficientnet_b4":
                arguments += ["--size", "380"]
            found.append((f"convnet-training-{name}-{precision}", arguments))
            found.append((f"convnet-inference-{name}-{precision}", [*arguments, "--inference"]))
    return found


def main() -> None:
    """Trace what is missing in the folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("measurements", type=Path)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--models", type=int, default=150, help="whose memory was measured")
    parser.add_argument("--times", type=int, help="models whose steps were measured; as many if left out")
    parser.add_argument("--part", type=int, default=0, help="which of --parts processes this is")
    parser.add_argument("--parts", type=int, default=1)
    options = parser.parse_args()
    options.traces.mkdir(parents=True, exist_ok=True)
    import timm
    import torch

    # Fake tensors need it; it takes seconds, and once is enough.
    importlib.import_module("torch._dynamo.config")

    print(f"torch {torch.__version__}, timm {timm.__version__}", flush=True)
    for name, arguments in wanted(options.measurements, options.models, options.times)[
        options.part :: options.parts
    ]:
        output = options.traces / f"{name}.json"
        if not output.exists():
            started = time.monotonic()
            code = _trace(output, arguments)
            print(f"{name}: {time.monotonic() - started:.1f} s, exit code {code}", flush=True)


def _trace(output: Path, arguments: list[str]) -> int:
    """Fork: PyTorch has made no threads yet, because nothing was computed."""
    child = os.fork()
    if child == 0:
        from gpuproof.trace.main import main as trace

        inference = ["--mode", "inference"] if "--inference" in arguments else []
        sys.argv = [
            "trace",
            *("--output", str(output), "--steps", "3", "--timeout", str(_SECONDS), *inference),
            *("--", str(SCRIPT), *arguments),
        ]
        sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
        trace()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    main()
