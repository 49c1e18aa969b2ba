"""`gpuproof-agent.pyz --sink`: pass points that come as lines of JSON on standard input on to one sink.

The first line is `{"sink": NAME, "report": FILE, "run": {…}}`, then follow `{"point": {…}}`, and at the end
`{"summary": {…}, "verdict": {…}}`. Points wait until the sink is ready: a tracker's run that the script itself creates appears late.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.sinks.metrics import Point, Run, Writer
from gpuproof.util.atomic import write_json

SINK = "--sink"
PACKAGES = {"wandb": "wandb", "mlflow": "mlflow", "trackio": "trackio"}
"""The sinks that need a package of the script's Python."""
NAMES = ("wandb", "mlflow", "tensorboard", "trackio", "opentelemetry", "prometheus")

_LONGEST_WAIT_S = 120.0
"""How long points wait for a run that the script itself creates."""
_MOST_NOTES = 5


class SinkFailed(Exception):
    """The sink cannot be used; the message says why."""


def main() -> int:
    """Run the sink; returns 1 if it failed, which the report describes."""
    first = json.loads(sys.stdin.buffer.readline() or b"{}")
    if not first:
        return 1
    report: dict[str, Any] = {"location": None, "notes": []}
    try:
        _pass_on(first["sink"], Run(**first["run"]), report)
    except Exception as error:  # noqa: BLE001 - of any package of the user's; the report says which
        traceback.print_exc()
        if not isinstance(error, SinkFailed):
            error = SinkFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        report["notes"].append(str(error))
    write_json(Path(first["report"]), {**report, "notes": report["notes"][:_MOST_NOTES]})
    return int(bool(report["notes"]))


def _pass_on(name: str, run: Run, report: dict[str, Any]) -> None:
    package = PACKAGES.get(name)
    try:
        module = import_module(f"gpuproof.agent.sinks.{name}")
        if package is not None:
            import_module(package)
    except ImportError as error:
        raise SinkFailed(f"the script's Python has no package {package or error.name}: {error}") from error
    is_ready: Callable[[Run], bool] = getattr(module, "is_ready", _at_once)
    waiting: list[Point] = []
    writer: Writer | None = None
    since = time.monotonic()
    summary: Mapping[str, Any] = {}
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "summary" in message:
            summary = message
            break
        waiting.append(Point.from_json(message["point"]))
        if writer is None and (is_ready(run) or time.monotonic() - since > _LONGEST_WAIT_S):
            writer = module.Writer(run)
        if writer is not None:
            _write_all(writer, waiting)
    if writer is None:
        writer = module.Writer(run)
    assert writer is not None
    _write_all(writer, waiting)
    writer.finish(summary.get("summary"), summary.get("verdict"))
    report["location"] = writer.location


def _write_all(writer: Writer, points: list[Point]) -> None:
    while points:
        writer.write(points.pop(0))


def _at_once(_run: Run) -> bool:
    return True
