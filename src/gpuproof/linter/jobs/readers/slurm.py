"""Reads the job that a Slurm script describes in its `#SBATCH` lines: nodes, GPUs and tasks."""

from __future__ import annotations

import re
import shlex

from gpuproof.linter.analysis.values import ABSENT, Value, known
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.span import Span, Unit

_LINE = re.compile(r"^#SBATCH\s+(.*)$")
_SHORT = {"N": "nodes", "n": "ntasks", "G": "gpus"}
_COUNT = re.compile(r"(?:.*:)?(\d+)(?:\(.*\))?$")
"""`4`, `a100:4`, `gpu:h100:8(S:0-1)`."""


def job(unit: Unit) -> JobDefinition:
    """The job of a Slurm script, which runs the script's commands. Source: https://slurm.schedmd.com/sbatch.html."""
    options = _options(unit)
    nodes = _number(options.get("nodes"), 1)
    gpus = _gpus(options, nodes)
    return JobDefinition(
        kind="training",
        source="slurm",
        api=unit.path.rpartition("/")[2],
        span=unit.span(1),
        instance_count=nodes,
        gpu_count=gpus,
        command=known(unit.source),
        arguments={name: known(text, span) for name, (text, span) in options.items()},
    )


def _options(unit: Unit) -> dict[str, tuple[str, Span]]:
    found: dict[str, tuple[str, Span]] = {}
    for number, line in enumerate(unit.lines, 1):
        match = _LINE.match(line)
        if match is None:
            continue
        try:
            words = shlex.split(match.group(1), comments=True)
        except ValueError:
            continue
        span = unit.span(number, 1, number, len(line) + 1)
        for word, following in zip(words, [*words[1:], ""], strict=False):
            if not word.startswith("-"):
                continue
            name, equals, value = word.lstrip("-").partition("=")
            if not word.startswith("--"):
                name, value = name[:1], name[1:] or following
            found[_SHORT.get(name, name)] = (
                value if equals or not word.startswith("--") else following,
                span,
            )
    return found


def _gpus(options: dict[str, tuple[str, Span]], nodes: Value) -> Value:
    """The GPUs of each node; absent if the script asks for none, or if their number is unknown."""
    for name in ("gpus-per-node", "gres"):
        text, span = options.get(name, ("", None))
        parts = [part for part in text.split(",") if name != "gres" or part.startswith("gpu")]
        if text and parts:
            return _number((parts[0] if _COUNT.match(parts[0]) else "1", span), 1)
    total, hosts = _number(options.get("gpus"), 0), nodes.number
    if total.number and hosts and total.number % hosts == 0:
        return known(int(total.number // hosts), total.span)
    return ABSENT


def _number(option: tuple[str, Span | None] | None, fallback: int) -> Value:
    if option is None:
        return known(fallback)
    match = _COUNT.match(option[0])
    return known(int(match.group(1)), option[1]) if match is not None else ABSENT
