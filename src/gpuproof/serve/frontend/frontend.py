"""The front process: everything wired together, from the open port to the way down."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.serve.errors import LoadError
from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.frontend.multi_model import Models
from gpuproof.serve.frontend.routes import App
from gpuproof.serve.http.parser import Head
from gpuproof.serve.http.server import HttpServer, Limits
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.observability.access_log import AccessLog, open_stream
from gpuproof.serve.observability.gauges import gauges
from gpuproof.serve.observability.gpu_monitor import GpuWatch
from gpuproof.serve.observability.request_record import Record, Totals
from gpuproof.serve.observability.tracing import span_writer
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.available_memory import read_memory
from gpuproof.serve.workers.device_assignment import Placement, placements
from gpuproof.serve.workers.slot import Slot
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.serve.workers.supervisor import GRACE_S, Events, Supervisor

INFO = 20
"""The level of the access log, as Python's logging counts."""
ENDING = (signal.SIGTERM, signal.SIGINT)
_END_S = 3.0
_LOOK_S = 10.0
_LAST_SPANS_S = 1.0
"""SageMaker kills 30 s after it has asked to end; the drain has 25 of them, and the predictors' end 3."""
_SAME_S = 0.5
"""A signal to a whole group comes twice: by itself, and from the parent, which hands it on."""


@dataclass(frozen=True)
class Options:
    """What no environment variable of SageMaker's says.

    Args:
        access_log: whether to write one.
        load_once: try nothing again when the model cannot be loaded: it is loaded again when somebody has changed it.
        leave_on_failure: as before, and end when the model cannot be loaded, rather than say so on `/ping`.
        grace_s: how long beyond the time-out a predictor may hang, in seconds.
        limits: how patient the HTTP server is.
        ready_fd: a descriptor to which the port is written once the server listens.
        with_parent: whether the kernel shall end the server with the process that started it.
    """

    access_log: bool = True
    load_once: bool = False
    leave_on_failure: bool = False
    grace_s: float = GRACE_S
    limits: Limits = field(default_factory=Limits)
    ready_fd: int | None = None
    with_parent: bool = False


class Front:
    """One server: its port, its models, its log."""

    def __init__(
        self,
        settings: Settings,
        model_dir: Path,
        options: Options,
        spawner: Spawner,
        environ: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._model_dir = model_dir
        self._options = options
        self._spawner = spawner
        self._environ = environ
        self._began = time.monotonic()
        self._totals = Totals()
        wanted = options.access_log and settings.log_level <= INFO
        self._spans = span_writer(environ, say)
        self._log = AccessLog(open_stream() if wanted else None, self._spans)
        self._core = InferenceCore(settings, self._observe)
        self._asked = 0
        self._asked_at = float("-inf")
        self._answered = 0
        self._models: Models | None = None
        self._gpus = GpuWatch([], lambda: 0, say, say)
        self._over: asyncio.Event | None = None
        self._code = 0
        self._ready = False
        """Everything has been loaded once."""

    async def run(self, asked: Sequence[int] = ()) -> int:
        """Serve until it is over.

        Args:
            asked: signals to end that have come before.
        """
        self._over = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self._ask_to_end)
        if asked:
            self._spawner.close()
            return 0
        memory = BodyMemory.make()
        events = Events(say, self._model_loaded, self._model_failed, self._model_placed)
        supervisor = Supervisor(
            self._core,
            self._spawner,
            own_command(),
            self._environ,
            events,
            self._options.grace_s,
            memory,
            load_once=self._settings.multi_model or self._options.leave_on_failure or self._options.load_once,
        )
        if self._settings.multi_model:
            self._models = Models(
                self._core, supervisor, lambda: self._for_one_more(placed), read_memory, say
            )
        app = App(self._core, self._metrics, self._models)
        server = HttpServer(
            app, self._options.limits, lambda head, status: self._refused(app, head, status), memory
        )
        self._core.starting = True
        port = await self._listen(server)
        self._tell_port(port)
        # In a thread: a driver may take seconds to wake up, and /ping is asked meanwhile.
        placed = await loop.run_in_executor(None, self._placements)
        self._look_for_gpus(placed)
        self._log.start()
        supervisor.start()
        self._core.starting = False
        self._watch_gpus(placed, loop)
        if self._settings.require_gpu:
            # Its verdict ends the health: it must not count from what a predictor has already taken.
            await loop.run_in_executor(None, self._gpus.wait_for_a_look, _LOOK_S)
        if self._models is not None:
            self._models.relieve()
        else:
            served = supervisor.serve("model", self._model_dir, str(self._model_dir), placed)
            # For `--dev`: the model's code has changed.
            loop.add_signal_handler(signal.SIGHUP, supervisor.reload, served)
        lost = loop.create_task(supervisor.spawner_lost.wait())
        over = loop.create_task(self._over.wait())
        await asyncio.wait([lost, over], return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            say("the spawner of the predictors was killed; nothing can be served without it")
            self._code = 1
        else:
            await self._drain(server)
        for model in self._core.models.values():
            model.pool.abandon(503, "the server is shutting down")
        await supervisor.end(_END_S)
        server.close()
        self._log.stop()
        if self._spans is not None:
            self._spans.close(_LAST_SPANS_S if self._asked < 2 else 0.0)
        for task in (lost, over):
            task.cancel()
        return self._code

    async def _listen(self, server: HttpServer) -> int:
        host, port = self._settings.host, self._settings.port
        try:
            return await server.start(host, port)
        except OSError as error:
            number = error.errno or 0
            # asyncio puts words of its own before the system's; a negative number is the resolver's.
            why = os.strerror(number) if number > 0 else error.strerror
            raise LoadError(
                f"Port {port} of {host} cannot be listened at: {why}.",
                remedy="Another server has it: set SAGEMAKER_BIND_TO_PORT, or give --port."
                if number == errno.EADDRINUSE
                else "--host and --port, or GPUPROOF_SERVE_HOST and SAGEMAKER_BIND_TO_PORT, say where to listen.",
            ) from error

    async def _drain(self, server: HttpServer) -> None:
        """Answer what was asked, take nothing more."""
        self._core.draining = True
        server.stop_accepting()
        deadline = time.monotonic() + self._settings.drain_s
        while time.monotonic() < deadline and self._asked < 2:
            if not self._core.in_flight and not server.connections:
                return
            await asyncio.sleep(0.02)

    def _ask_to_end(self) -> None:
        now = time.monotonic()
        if self._options.with_parent and now - self._asked_at < _SAME_S:
            return
        self._asked_at = now
        self._asked += 1
        assert self._over is not None
        self._over.set()

    def _observe(self, record: Record) -> None:
        self._totals.add(record)
        self._answered += 200 <= record.status < 300
        self._log.add(record)

    def _refused(self, app: App, head: Head | None, status: int) -> None:
        """A request that never reached a model is counted and logged too; its time is none."""
        known = head is not None and head.method in (
            "GET",
            "HEAD",
            "POST",
            "PUT",
            "PATCH",
            "DELETE",
            "OPTIONS",
        )
        method = head.method if head is not None and known else "other"
        path = app.route(head.path) if head is not None else "other"
        self._observe(Record(time.time(), method, path, status, 0.0, 0, 0))

    def _metrics(self) -> Iterator[str]:
        yield from self._totals.lines()
        yield from gauges(self._core)
        yield from self._gpus.lines()

    def _for_one_more(self, placed: list[Placement]) -> list[Placement]:
        """One more model's placements: the models take turns on the GPUs."""
        count = self._settings.workers or 1
        first = sum(model.health.wanted for model in self._core.models.values())
        return [placed[(first + number) % len(placed)] for number in range(count)]

    def _look_for_gpus(self, placed: list[Placement]) -> None:
        """Without any GPU, the models of `--require-gpu` are on the CPU whatever they do."""
        if self._settings.require_gpu and not any(one.device.kind == "cuda" for one in placed):
            self._core.trouble = (
                "a GPU is required, and there is no GPU here: nvidia-smi and CUDA_VISIBLE_DEVICES tell more"
            )
            say(f"never healthy: {self._core.trouble}")

    def _watch_gpus(self, placed: list[Placement], loop: asyncio.AbstractEventLoop) -> None:
        indexes = {one.device.nvml_index for one in placed if one.device.nvml_index is not None}
        self._gpus = GpuWatch(
            sorted(indexes),
            lambda: self._answered,
            lambda words: say(f"warning: {words}"),
            lambda words: loop.call_soon_threadsafe(self._gpus_unused, words),
        )
        self._gpus.start()

    def _placements(self) -> list[Placement]:
        from gpuproof.gpu.nvml import count_gpus  # after the port is open: it may take a while

        try:
            cpus = len(os.sched_getaffinity(0))
        except AttributeError:
            cpus = os.cpu_count() or 1
        return placements(self._settings, self._environ, count_gpus(), cpus)

    def _model_loaded(self, slot: Slot, told: dict[str, Any]) -> None:
        self._model_placed(slot, told)
        if self._models is not None:
            self._models.loaded(slot)
        health = slot.served.health
        if len(health.loaded) < health.wanted or self._core.unhealthy is not None:
            return
        if self._models is not None:
            say(f"{slot.served.name} is loaded ({health.wanted} x {slot.placement.device.name})")
            return
        if self._ready:
            say(f"predictor {slot.index} of {slot.served.name} has loaded it again")
            return
        self._ready = True
        took = time.monotonic() - self._began
        say(f"ready after {took:.2f} s ({health.wanted} x {slot.placement.device.name})")

    def _model_placed(self, slot: Slot, told: dict[str, Any]) -> None:
        """Where a model is: once it is loaded, and again after its first answers where it was on the CPU."""
        before = slot.served.health.misplaced.pop(slot.index, "")
        words = told["placement"]
        if not told["on_device"]:
            slot.served.health.misplaced[slot.index] = words
            if words != before:
                say(f"warning: {words}")
        elif before:
            say(f"the model is on {slot.placement.device.name} now")
        elif words:
            say(words)

    def _gpus_unused(self, words: str) -> None:
        say(f"warning: {words}")
        if self._settings.require_gpu:
            self._core.trouble = words

    def _model_failed(self, slot: Slot) -> None:
        if self._models is not None:
            self._models.failed(slot)
        elif self._options.leave_on_failure and not slot.served.health.loaded:
            self._code = 1
            self._ask_to_end()
        elif self._options.load_once:
            say("it is loaded again when its files change")

    def _tell_port(self, port: int) -> None:
        say(f"listening at {self._settings.host}:{port}")
        if self._options.ready_fd is not None:
            os.write(self._options.ready_fd, f"{port}\n".encode())
            os.close(self._options.ready_fd)


def own_command() -> list[str]:
    """How to start one of the server's other processes: from the agent's file, or from an installed GPUproof."""
    archive = Path(__file__).parents[3]
    if archive.is_file():
        return [sys.executable, str(archive)]
    return [sys.executable, "-m", "gpuproof.serve"]


def say(words: str) -> None:
    """A line for the log."""
    try:
        sys.stderr.write(f"gpuproof serve: {words.rstrip()}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # A full disk, or nobody there to read: serving goes on.
        return
