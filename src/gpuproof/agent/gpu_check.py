"""`python3 gpuproof-agent.pyz --gpu-check`: a short check of this machine's GPUs, for a person to read.

A SageMaker notebook instance runs it at each start. It reads the NVIDIA driver (NVML) and initialises CUDA, each in a process
of its own with a time limit, and starts no framework: `gpuproof doctor` checks those.

    --expect TEXT    what the instance type has, such as `1 A10G`; empty if it is not known

The first line is `GPU check: ok`, `GPU check: problem` or `GPU check: no GPU`. Exit codes: 0, or 1 if there is a problem. It
needs Python 3.9 and nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence

from gpuproof.gpu.cuda import CudaReading, NvmlReading, read_cuda, read_nvml
from gpuproof.util.humanize import format_bytes, pluralize

_EXPECTED = re.compile(r"(\d+) (\S.*)")
_MEMORY = re.compile(r"-\d+GB$")


def main(argv: Sequence[str] | None = None) -> int:
    """Check this machine; see the module."""
    parser = argparse.ArgumentParser(prog="gpuproof-agent --gpu-check", usage=__doc__, allow_abbrev=False)
    parser.add_argument("--gpu-check", action="store_true")
    parser.add_argument("--expect", default="")
    arguments = parser.parse_args(list(sys.argv[1:] if argv is None else argv))
    nvml = read_nvml(os.environ)
    problems, facts = evaluate(nvml, read_cuda(os.environ) if nvml.gpus else None, arguments.expect)
    state = "problem" if problems else "ok" if nvml.gpus else "no GPU"
    print(f"GPU check: {state}")
    for line in (*problems, *facts):
        print(line)
    return 1 if problems else 0


def evaluate(
    nvml: NvmlReading, cuda: CudaReading | None, expected: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Problems and facts, each a sentence.

    Args:
        cuda: what CUDA reports; None if it was not asked.
        expected: such as `1 A10G`; empty if it is not known.
    """
    facts = _facts(nvml, cuda)
    wanted = _EXPECTED.fullmatch(expected)
    if nvml.problem is not None and (wanted or not nvml.library_missing):
        return (f"The NVIDIA driver does not answer: {nvml.problem}.",), facts
    problems = [f"GPU {index} does not respond: {why}." for index, why in nvml.lost]
    if wanted is not None:
        count, model = int(wanted[1]), _MEMORY.sub("", wanted[2]).upper().replace("-", " ")
        if len(nvml.gpus) != count:
            problems.append(
                f"The instance type has {pluralize(count, 'GPU')} ({wanted[2]}), but the driver reports {len(nvml.gpus)}."
            )
        others = [gpu.name for gpu in nvml.gpus if gpu.name and not _is_model(gpu.name, model)]
        if others:
            problems.append(f"The instance type has {wanted[2]}, but the driver reports {others[0]}.")
    if cuda is not None and (problem := _cuda_problem(cuda, len(nvml.gpus))):
        problems.append(problem)
    return tuple(problems), facts


def _facts(nvml: NvmlReading, cuda: CudaReading | None) -> tuple[str, ...]:
    names = Counter((gpu.name or "unknown GPU", gpu.memory_total or 0) for gpu in nvml.gpus)
    lines = [
        f"{count} x {name}{f', {format_bytes(memory)} each' if memory else ''}."
        for (name, memory), count in names.items()
    ]
    if nvml.driver is not None:
        newest = f", CUDA up to {cuda.version[0]}.{cuda.version[1]}" if cuda and cuda.version else ""
        lines.append(f"NVIDIA driver {nvml.driver}{newest}.")
    return tuple(lines)


def _is_model(name: str, model: str) -> bool:
    """Whether a driver's name of a GPU means a model: `NVIDIA A100-SXM4-40GB` means A100."""
    words = set(name.upper().replace("-", " ").split())
    return words.issuperset(model.split())


def _cuda_problem(cuda: CudaReading, gpus: int) -> str | None:
    if cuda.library_error is not None:
        return f"The CUDA driver library does not load: {cuda.library_error}."
    if cuda.problem is not None:
        return f"CUDA does not start: {cuda.problem}."
    if cuda.init:
        return f"CUDA does not start: cuInit returned {cuda.init}."
    if len(cuda.devices) < gpus:
        return f"CUDA sees {len(cuda.devices)} of {gpus} GPUs."
    return None


if __name__ == "__main__":
    sys.exit(main())
