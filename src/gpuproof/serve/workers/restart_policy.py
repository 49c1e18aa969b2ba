"""Restart policy for one worker slot."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.serve.workers.device_assignment import DeviceAssignment
from gpuproof.serve.workers.model_state import ModelState
from gpuproof.serve.workers.worker_client import WorkerClient

_MAX_FAILURES = 5
"""A slot is abandoned after this many consecutive exits before the model was loaded."""
_LOAD_FAILURE_WEIGHT = 2
_MIN_DELAY_S = 0.1
_MAX_DELAY_S = 10.0


@dataclass
class Slot:
    """One of a model's worker slots."""

    index: int
    assignment: DeviceAssignment
    model: ModelState
    folder: Path
    worker: WorkerClient | None = None
    failures: int = 0
    """Consecutive exits before the model was loaded."""
    crashes: int = 0
    """Consecutive exits without a single response."""
    load_error: str = ""
    """Why the model cannot be loaded, as reported by the worker."""
    load_cause: str = ""
    """The same for clients: in one line, without what the handler raised."""
    load_error_logged: bool = False
    abandoned: bool = False
    """Whether no worker is started in it any more."""
    out_of_memory: bool = False
    replaces: WorkerClient | None = None
    """The worker that retires once this slot's worker has loaded the model."""

    def renewed(self, replaces: WorkerClient | None = None) -> Slot:
        """The same slot without its history, for a new worker."""
        return Slot(self.index, self.assignment, self.model, self.folder, replaces=replaces)

    def record_exit(self, worker: WorkerClient, message: Mapping[str, Any]) -> None:
        """Count an unexpected exit."""
        self.crashes = 1 if worker.answered else self.crashes + 1
        if worker.loaded:
            # The model can be loaded: the slot is not abandoned, however many requests kill its workers.
            self.failures = 0
            return
        self.failures += _LOAD_FAILURE_WEIGHT if self.load_error else 1
        self.out_of_memory = self.out_of_memory or message.get("code") == -signal.SIGKILL

    @property
    def exhausted(self) -> bool:
        """Whether loading the model failed too often."""
        return self.failures >= _MAX_FAILURES

    @property
    def crash_looping(self) -> bool:
        """Whether too many consecutive workers ended without a response to rely on the next one."""
        return self.crashes >= _MAX_FAILURES

    @property
    def restart_delay_s(self) -> float:
        """Seconds until the next worker is started; doubles with each crash."""
        return min(_MIN_DELAY_S * 2 ** min(self.crashes - 1, 9), _MAX_DELAY_S)


def describe_exit(message: Mapping[str, Any]) -> str:
    """The spawner's message about the end of a process, as text: `exit code 1`, `killed by SIGKILL`."""
    if "why" in message:
        return f"could not be started: {message['why']}"
    code = int(message["code"])
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
