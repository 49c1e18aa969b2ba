"""Model manager of the multi-model API: every model has its own workers; the least recently used model is evicted.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/build-multi-model-build-container.html. Separate processes cost
memory, but isolate models: a crash, leak or library version of one model does not affect the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.workers.device_assignment import DeviceAssignment
from gpuproof.serve.workers.model_state import ModelState
from gpuproof.serve.workers.restart_policy import Slot
from gpuproof.serve.workers.supervisor import Supervisor

OnDone = Callable[[int, str], None]
_POLL_S = 0.02
_MIN_FREE = 0.05
"""Share of the memory below which models are evicted."""
_MEMORY_CHECK_S = 1.0
_MAX_FILES = 10_000
_FRAMEWORK_BYTES = 256 * 1024 * 1024
"""Memory that a framework needs in addition to the model's files."""


@dataclass
class _Loading:
    model: ModelState
    on_done: OnDone


class ModelManager:
    """Loads and unloads models.

    Args:
        memory: returns available and total memory, in bytes.
    """

    def __init__(
        self,
        core: InferenceCore,
        supervisor: Supervisor,
        assign: Callable[[], Sequence[DeviceAssignment]],
        memory: Callable[[], tuple[int, int]],
        log: Callable[[str], None],
    ) -> None:
        self._core = core
        self._supervisor = supervisor
        self._assign = assign
        self._memory = memory
        self._log = log
        self._loading: dict[str, _Loading] = {}
        self._measuring: set[str] = set()

    def load(self, name: str, url: str, on_done: OnDone) -> None:
        """Load a model. Reports 200, 404 if there is none, 403 if it is not below a root, 507 if it does not fit, 500 if its handler fails."""
        folder = Path(url)
        if not folder.is_absolute() or not folder.is_dir():
            on_done(404, "url is not the absolute path of a folder")
            return
        if not self._is_below_root(folder):
            self._log(
                f"refused to load {name} from {url}: it is not below {' or '.join(self._roots)}; "
                "set GPUPROOF_SERVE_MODELS_ROOTS"
            )
            on_done(403, "url is not in a folder that models may be loaded from; see the server's log")
            return
        if name in self._measuring:
            on_done(409, f"{name} is being loaded already")
            return
        # In a thread: the folder may be large, and its disk slow.
        self._measuring.add(name)
        measuring = asyncio.get_running_loop().run_in_executor(None, folder_size, folder)
        measuring.add_done_callback(
            lambda size: self._start(name, url, size.result() + _FRAMEWORK_BYTES, on_done)
        )

    def unload(self, name: str, on_done: OnDone) -> None:
        """Unload a model when it has answered the requests in progress."""
        model = self._core.models.pop(name)
        model.dispatcher.reject_queued(503, "the model is being unloaded")
        loading = self._loading.pop(name, None)
        if loading is not None:
            loading.on_done(500, "the model was unloaded before it was loaded completely")
        self._supervisor.stop(model)
        self._when_stopped(model, lambda: on_done(200, f"{name} is unloaded"))

    def on_loaded(self, slot: Slot) -> None:
        """Report success when all workers of a model have loaded it."""
        model = slot.model
        loading = self._loading.get(model.name)
        if loading is not None and len(model.health.loaded) >= model.health.wanted:
            del self._loading[model.name]
            loading.on_done(200, f"{model.name} is loaded")

    def on_abandoned(self, slot: Slot) -> None:
        """Report that a model cannot be loaded, or evict another one and try again if memory was short."""
        model = slot.model
        loading = self._loading.pop(model.name, None)
        if loading is None:
            return
        self._core.models.pop(model.name, None)
        self._supervisor.stop(model)
        if not slot.out_of_memory:
            cause = slot.load_cause or "its worker ended; see the server's log"
            loading.on_done(500, f"the model cannot be loaded: {cause}")
        elif not self._evict(lambda: self.load(model.name, model.url, loading.on_done)):
            loading.on_done(507, "not enough memory for the model")

    def watch_memory(self) -> None:
        """Evict the least recently used model while memory is short. Reschedules itself."""
        free, total = self._memory()
        if free < total * _MIN_FREE:
            self._evict(lambda: None)
        asyncio.get_running_loop().call_later(_MEMORY_CHECK_S, self.watch_memory)

    @property
    def _roots(self) -> tuple[str, ...]:
        """The folders that models may be loaded from."""
        settings = self._core.settings
        return settings.models_roots or (str(Path(settings.base_dir) / "models"),)

    def _is_below_root(self, folder: Path) -> bool:
        real = Path(os.path.realpath(folder))
        return any(Path(os.path.realpath(root)) in real.parents for root in self._roots)

    def _start(self, name: str, url: str, needed: int, on_done: OnDone) -> None:
        if self._memory()[0] >= needed:
            self._measuring.discard(name)
            model = self._supervisor.serve(name, Path(url), url, self._assign())
            self._loading[name] = _Loading(model, on_done)
        elif not self._evict(lambda: self._start(name, url, needed, on_done)):
            self._measuring.discard(name)
            on_done(507, "not enough memory for the model")

    def _evict(self, then: Callable[[], None]) -> bool:
        """Unload the least recently used idle model, then call `then`. Returns whether there is one."""
        idle = [
            model
            for model in self._core.models.values()
            if model.dispatcher.idle and model.name not in self._loading
        ]
        if not idle:
            return False
        oldest = min(idle, key=lambda model: model.dispatcher.last_used)
        self._log(f"memory is short: unloading {oldest.name}, the least recently used model")
        self.unload(oldest.name, lambda _status, _message: then())
        return True

    def _when_stopped(self, model: ModelState, then: Callable[[], None]) -> None:
        if not self._supervisor.slots_of(model):
            then()
        else:
            asyncio.get_running_loop().call_later(_POLL_S, self._when_stopped, model, then)


def folder_size(folder: Path) -> int:
    """Size in bytes of a folder's readable files, up to the first few thousand."""
    total = seen = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 - thousands of them
        seen += len(names)
        if seen > _MAX_FILES:
            break
    return total
