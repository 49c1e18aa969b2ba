"""A predictor's place: who fills it, how often it fell empty, and what follows from that."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.serve.frontend.inference import Served
from gpuproof.serve.workers.device_assignment import Placement
from gpuproof.serve.workers.worker_client import Worker

_MOST_FAILURES = 5
"""So many ends in a row before the model was loaded, and a predictor's place stays empty."""
_LOAD_FAILURE_COUNTS = 2
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0


@dataclass
class Slot:
    """One place of a model's predictors."""

    index: int
    placement: Placement
    served: Served
    folder: Path
    worker: Worker | None = None
    failures: int = 0
    """Ends in a row before the model was loaded."""
    deaths: int = 0
    """Ends in a row without one answer."""
    reason: str = ""
    """Why the model cannot be loaded, in the handler's words."""
    given_up: bool = False
    out_of_memory: bool = False
    replaces: Worker | None = None
    """Whose place it takes once it has loaded."""

    def anew(self, replaces: Worker | None = None) -> Slot:
        """The same place, to be filled by another predictor."""
        return Slot(self.index, self.placement, self.served, self.folder, replaces=replaces)

    def fell_empty(self, worker: Worker, message: Mapping[str, Any]) -> None:
        """Count an end that nobody wanted.

        Args:
            worker: who filled it.
            message: what the spawner said of its end.
        """
        self.deaths = 1 if worker.answered else self.deaths + 1
        if worker.loaded:
            # It can be loaded: requests that kill it are no reason to give it up, however many come in a row.
            self.failures = 0
            return
        self.failures += _LOAD_FAILURE_COUNTS if self.reason else 1
        self.out_of_memory = self.out_of_memory or message.get("code") == -signal.SIGKILL

    @property
    def hopeless(self) -> bool:
        """Whether the model could not be loaded too often."""
        return self.failures >= _MOST_FAILURES

    @property
    def tired(self) -> bool:
        """Whether so many ended without an answer that nobody should count on the next one."""
        return self.deaths >= _MOST_FAILURES

    @property
    def pause_s(self) -> float:
        """How long it stays empty before it is filled again; longer from death to death."""
        return min(_FIRST_PAUSE_S * 2 ** min(self.deaths - 1, 9), _LONGEST_PAUSE_S)


def how_it_ended(message: Mapping[str, Any]) -> str:
    """The spawner's message in words."""
    if "why" in message:
        return f"could not be started: {message['why']}"
    code = int(message["code"])
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
