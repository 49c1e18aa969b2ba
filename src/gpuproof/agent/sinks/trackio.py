"""Trackio: into the run that the script has, or a run of its own in the same project.

The project's databases are read without the package: https://huggingface.co/docs/trackio/environment_variables (`TRACKIO_DIR`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

from gpuproof.agent.sinks.metrics import Point, Run, key, prefix


def is_ready(run: Run) -> bool:
    """Whether the script has started its run."""
    return script_run(run, os.environ) is not None


def script_run(run: Run, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Project and name of the run to which something was logged since the run's start; `None` unless there is exactly one."""
    since = datetime.fromtimestamp(run.started, timezone.utc).isoformat()
    found = {
        (path.stem, name)
        for path in _folder(environment).glob("*.db")
        if path.stat().st_mtime >= run.started or _journal_is_new(path, run.started)
        for name in _names_since(path, since)
    }
    return found.pop() if len(found) == 1 else None


class Writer:
    """Writes to a run of Trackio."""

    def __init__(self, run: Run) -> None:
        trackio: Any = import_module("trackio")
        found = script_run(run, os.environ)
        project, name = found or (os.environ.get("TRACKIO_PROJECT") or run.job_name, f"{run.id}-{run.host}")
        self._run: Any = trackio.init(
            project=project,
            name=name,
            resume="allow",
            embed=False,
            auto_log_gpu=False,
        )
        self._of = run
        self._step = 0
        self.location: str | None = f"project {project}, run {name}"

    def write(self, point: Point) -> None:
        self._step = int(point.seconds)
        self._log({key(value, self._of): value.value for value in point.values})

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        del verdict
        if summary is not None:
            self._log({f"{prefix(self._of)}summary/{name}": value for name, value in summary.items()})
        self._run.finish()

    def _log(self, values: Mapping[str, float | str]) -> None:
        if values:
            self._run.log(dict(values), step=self._step)


def _folder(environment: Mapping[str, str]) -> Path:
    if environment.get("TRACKIO_DIR"):
        return Path(environment["TRACKIO_DIR"])
    home = environment.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    return Path(home) / "trackio"


def _journal_is_new(path: Path, since: float) -> bool:
    journal = path.with_name(f"{path.name}-wal")
    return journal.is_file() and journal.stat().st_mtime >= since


def _names_since(path: Path, since: str) -> list[str]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT DISTINCT run_name FROM metrics WHERE timestamp >= ?", (since,))
            return [row[0] for row in rows]
    except sqlite3.Error:
        return []
