"""The multi-model API's store: each model has predictors of its own, and the least recently used make room.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/build-multi-model-build-container.html. A process a model costs
memory, and buys that one model's crash, leak or library is no other model's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from gpuproof.serve.frontend.inference import InferenceCore, Served
from gpuproof.serve.workers.device_assignment import Placement
from gpuproof.serve.workers.slot import Slot
from gpuproof.serve.workers.supervisor import Supervisor

Done = Callable[[int, str], None]
_LOOK_S = 0.02
_PRESSURE = 0.05
"""Less than this share of the memory free is pressure."""
_PRESSURE_EVERY_S = 1.0
_MOST_FILES = 10_000
_CONTEXT = 256 * 1024 * 1024
"""What a framework needs beside the model's own bytes."""


@dataclass
class _Loading:
    served: Served
    done: Done


class Models:
    """Loads and unloads models.

    Args:
        core: has those that are loaded.
        supervisor: has their predictors.
        place: placements for one more model.
        memory: bytes available and in all.
        say: a line for the log.
    """

    def __init__(
        self,
        core: InferenceCore,
        supervisor: Supervisor,
        place: Callable[[], Sequence[Placement]],
        memory: Callable[[], tuple[int, int]],
        say: Callable[[str], None],
    ) -> None:
        self._core = core
        self._supervisor = supervisor
        self._place = place
        self._memory = memory
        self._say = say
        self._loading: dict[str, _Loading] = {}
        self._measured: set[str] = set()

    def load(self, name: str, url: str, done: Done) -> None:
        """Load a model: 200, 404 where there is none, 507 where it does not fit, 500 where its handler fails."""
        folder = Path(url)
        if not folder.is_absolute() or not folder.is_dir():
            done(404, "url is no folder's absolute path")
            return
        if name in self._measured:
            done(409, f"{name} is being loaded already")
            return
        # In a thread: a folder may be large, and its disk slow.
        self._measured.add(name)
        measuring = asyncio.get_running_loop().run_in_executor(None, bytes_of, folder)
        measuring.add_done_callback(lambda found: self._start(name, url, found.result() + _CONTEXT, done))

    def _start(self, name: str, url: str, needed: int, done: Done) -> None:
        if self._memory()[0] >= needed:
            self._measured.discard(name)
            served = self._supervisor.serve(name, Path(url), url, self._place())
            self._loading[name] = _Loading(served, done)
        elif not self._evict(lambda: self._start(name, url, needed, done)):
            self._measured.discard(name)
            done(507, "there is not enough memory for the model")

    def unload(self, name: str, done: Done) -> None:
        """Unload a model; what it is at is answered first."""
        served = self._core.models.pop(name)
        served.pool.refuse_all(503, "the model is being unloaded")
        loading = self._loading.pop(name, None)
        if loading is not None:
            loading.done(500, "the model was unloaded while it was loaded")
        self._supervisor.stop(served)
        self._when_gone(served, lambda: done(200, f"{name} is unloaded"))

    def loaded(self, slot: Slot) -> None:
        """A predictor has loaded its model."""
        served = slot.served
        loading = self._loading.get(served.name)
        if loading is not None and len(served.health.loaded) >= served.health.wanted:
            del self._loading[served.name]
            loading.done(200, f"{served.name} is loaded")

    def failed(self, slot: Slot) -> None:
        """A predictor could not load its model, or was lost for good."""
        served = slot.served
        loading = self._loading.pop(served.name, None)
        if loading is None:
            return
        self._core.models.pop(served.name, None)
        self._supervisor.stop(served)
        if not slot.out_of_memory:
            loading.done(500, "the model cannot be loaded; the server's log says why")
        elif not self._evict(lambda: self.load(served.name, served.url, loading.done)):
            loading.done(507, "there is not enough memory for the model")

    def relieve(self) -> None:
        """Unload the least recently used model while memory is short; calls itself again."""
        free, total = self._memory()
        if free < total * _PRESSURE:
            self._evict(lambda: None)
        asyncio.get_running_loop().call_later(_PRESSURE_EVERY_S, self.relieve)

    def _evict(self, then: Callable[[], None]) -> bool:
        """Unload the least recently used model that nobody waits for; whether there is one."""
        idle = [
            model
            for model in self._core.models.values()
            if model.pool.idle and model.name not in self._loading
        ]
        if not idle:
            return False
        oldest = min(idle, key=lambda model: model.pool.last_used)
        self._say(f"memory is short: {oldest.name} was used least recently and is unloaded")
        self.unload(oldest.name, lambda _status, _message: then())
        return True

    def _when_gone(self, served: Served, then: Callable[[], None]) -> None:
        if not self._supervisor.slots_of(served):
            then()
        else:
            asyncio.get_running_loop().call_later(_LOOK_S, self._when_gone, served, then)


def bytes_of(folder: Path) -> int:
    """The size of a model's files, of the first few thousand that can be read."""
    total = seen = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 - thousands of them
        seen += len(names)
        if seen > _MOST_FILES:
            break
    return total
