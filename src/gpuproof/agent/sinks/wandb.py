"""Weights & Biases: into the run that the script has, or a run of its own in the same group.

A second process writes to a run of the script in W&B's shared mode, which needs its server; offline, a run of its own is all there is.
Sources: https://docs.wandb.ai/guides/track/log/distributed-training/, `wandb.Settings` of wandb 0.31.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gpuproof.agent.sinks.metrics import Point, Run, key, prefix

QUIET = {
    "console": "off",
    "silent": True,
    "x_disable_stats": True,
    "disable_git": True,
    "save_code": False,
}
"""Settings of every run here: what W&B would record by itself is that of this process, not of the script."""
SHARED = {"mode": "shared", "x_primary": False, "x_label": "gpuproof", "x_update_finish_state": False}
"""Settings of a second process that writes to a run and does not finish it."""

_PER_RUN = (
    "WANDB_RUN_ID",
    "WANDB_NAME",
    "WANDB_RESUME",
    "WANDB_RUN_GROUP",
    "WANDB_JOB_TYPE",
    "WANDB_SWEEP_ID",
)
"""Variables that describe the script's own run."""
_OFFLINE = ("offline", "dryrun")
_BLOCK = 32 * 1024
_FULL_RECORD = 1


@dataclass(frozen=True)
class ScriptRun:
    """A run that the script has.

    Args:
        online: whether W&B's server knows it.
    """

    id: str
    project: str | None
    entity: str | None
    online: bool


def is_ready(run: Run) -> bool:
    """Whether the script has started its run, and it is known in which project: its file has that after some 32 KiB."""
    found = script_run(run, os.environ)
    return found is not None and found.project is not None


def script_run(run: Run, environment: Mapping[str, str]) -> ScriptRun | None:
    """The script's run, as its files say; or the one that the variables name."""
    offline = environment.get("WANDB_MODE") in _OFFLINE
    project, entity = environment.get("WANDB_PROJECT"), environment.get("WANDB_ENTITY")
    for folder in _folders(run, environment):
        for path in sorted(folder.glob("wandb/*run-*/run-*.wandb")):
            if path.stat().st_mtime >= run.started:
                found = _read_project(path)
                project, entity = found[0] or project, found[1] or entity
                online = not offline and not path.parent.name.startswith("offline-")
                return ScriptRun(path.stem[len("run-") :], project, entity, online)
    if identifier := environment.get("WANDB_RUN_ID"):
        return ScriptRun(identifier, project, entity, online=not offline)
    return None


class Writer:
    """Writes to a run of W&B."""

    def __init__(self, run: Run) -> None:
        wandb: Any = import_module("wandb")
        found = script_run(run, os.environ)
        for name in _PER_RUN:
            os.environ.pop(name, None)
        if found is not None and found.online and found.project is not None:
            self._run: Any = wandb.init(
                id=found.id,
                project=found.project,
                entity=found.entity or None,
                dir=_folder(run),
                settings=wandb.Settings(**QUIET, **SHARED),
            )
        else:
            self._run = wandb.init(
                id=f"{run.id}-{run.host}-gpuproof",
                name=f"{run.id} gpuproof" if run.hosts == 1 else f"{run.id} {run.host} gpuproof",
                project=found.project if found is not None else None,
                entity=found.entity if found is not None else None,
                group=found.id if found is not None else run.id,
                job_type="gpuproof",
                dir=_folder(run),
                settings=wandb.Settings(**QUIET),
            )
        self._prefix = prefix(run)
        self._of = run
        self.location: str | None = self._run.url or str(Path(self._run.dir).parent)
        self._run.define_metric(f"{self._prefix}*", step_metric=f"{self._prefix}seconds")

    def write(self, point: Point) -> None:
        values = {key(value, self._of): value.value for value in point.values}
        self._run.log({f"{self._prefix}seconds": point.seconds, **values})

    def finish(self, summary: Mapping[str, float | str] | None, verdict: Mapping[str, Any] | None) -> None:
        del verdict
        if summary is not None:
            self._run.summary.update(
                {f"{self._prefix}summary/{name}": value for name, value in summary.items()}
            )
        self._run.finish()


def _folder(run: Run) -> str:
    folder = os.environ.get("WANDB_DIR") or run.output
    Path(folder).mkdir(parents=True, exist_ok=True)
    return folder


def _folders(run: Run, environment: Mapping[str, str]) -> Iterator[Path]:
    """Where the script may keep its runs."""
    if environment.get("WANDB_DIR"):
        yield Path(environment["WANDB_DIR"])
    yield Path(run.code)
    yield from (Path(run.contract) / folder for folder in ("output/data", "output", "model", "checkpoints"))


def _read_project(path: Path) -> tuple[str | None, str | None]:
    """Project and entity of a run, from the first records of its file: a log in the format of LevelDB after seven bytes."""
    messages: Any = import_module("wandb.proto.wandb_internal_pb2")
    with path.open("rb") as file:
        content = file.read(_BLOCK)
    at = 7
    while at + 7 <= len(content):
        length, kind = struct.unpack_from("<HB", content, at + 4)
        at += 7
        if kind != _FULL_RECORD or at + length > len(content):
            break
        record: Any = messages.Record()
        record.ParseFromString(content[at : at + length])
        if record.WhichOneof("record_type") == "run":
            return record.run.project or None, record.run.entity or None
        at += length
    return None, None
