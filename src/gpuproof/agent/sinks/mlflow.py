"""MLflow: metrics and the verdict in the run that the script has, or in a run of its own.

`MLFLOW_RUN_ID` names the script's run. In a store on this machine it is found by its start, without MLflow: opening a database
that the script is just creating could disturb it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gpuproof.agent.sinks.metrics import Point, Run, key, prefix

_UNSUITABLE = re.compile(r"[^\w\-. :/]")
"""Characters that names of metrics must not have: `mlflow.utils.validation`."""


def is_ready(run: Run) -> bool:
    """Whether the script has started its run."""
    return script_run(run, os.environ) is not None


def script_run(run: Run, environment: Mapping[str, str]) -> str | None:
    """The id of the script's run; `None` without one, or with several."""
    if identifier := environment.get("MLFLOW_RUN_ID"):
        return identifier
    found = _runs_since(_tracking_uri(), run.started)
    return found[0] if len(found) == 1 else None


class Writer:
    """Writes to a run of MLflow."""

    def __init__(self, run: Run) -> None:
        tracking: Any = import_module("mlflow.tracking")
        self._entities: Any = import_module("mlflow.entities")
        self._client: Any = tracking.MlflowClient()
        found = script_run(run, os.environ)
        self._is_own = found is None
        self._run_id = found or self._create(run)
        self._of = run
        self._step = 0
        self.location: str | None = f"run {self._run_id}"

    def write(self, point: Point) -> None:
        self._step = int(point.seconds)
        self._log(int(point.at * 1000), {key(value, self._of): value.value for value in point.values})

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        summary = summary or {}
        start = f"{prefix(self._of)}summary/"
        numbers = {
            f"{start}{name}": float(value) for name, value in summary.items() if not isinstance(value, str)
        }
        self._log(int(time.time() * 1000), numbers)
        for name, value in summary.items():
            if isinstance(value, str):
                self._client.set_tag(self._run_id, f"{start}{name}", value[:5000])
        if verdict is not None:
            self._client.log_dict(self._run_id, dict(verdict), f"{prefix(self._of)}verdict.json")
        if self._is_own:
            status = {"Completed": "FINISHED", "Stopped": "KILLED"}.get(str(summary.get("status")), "FAILED")
            self._client.set_terminated(self._run_id, status)

    def _log(self, at_ms: int, values: Mapping[str, float]) -> None:
        metrics = [
            self._entities.Metric(_UNSUITABLE.sub("_", name), value, at_ms, self._step)
            for name, value in values.items()
        ]
        if metrics:
            self._client.log_batch(self._run_id, metrics=metrics)

    def _create(self, run: Run) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID") or "0"
        if name:
            known = self._client.get_experiment_by_name(name)
            experiment = known.experiment_id if known else self._client.create_experiment(name)
        tags = {"mlflow.source.name": run.entry_point, "gpuproof.run": run.id, "gpuproof.host": run.host}
        return self._client.create_run(experiment, tags=tags, run_name=run.id).info.run_id


def _tracking_uri() -> str:
    package: Any = import_module("mlflow")
    return package.get_tracking_uri()


def _runs_since(uri: str, since: float) -> list[str]:
    """Ids of the runs that have started in a store on this machine; empty for a server."""
    parts = urlsplit(uri)
    if parts.scheme == "sqlite":
        return _runs_in_database(Path(unquote(parts.path[1:])), since)
    if parts.scheme in ("", "file"):
        folders = Path(unquote(parts.path)).glob("*/*/meta.yaml")
        return [
            path.parent.name
            for path in folders
            if path.stat().st_mtime >= since and (path.parent / "metrics").is_dir()
        ]
    return []


def _runs_in_database(path: Path, since: float) -> list[str]:
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT run_uuid FROM runs WHERE start_time >= ?", (int(since * 1000),))
            return [row[0] for row in rows]
    except sqlite3.Error:
        return []  # it is just being created
