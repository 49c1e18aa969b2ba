"""The frontend process: wires all components together and runs them from start-up to shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuproof.gpu.cuda_compat import DriverLibrary
from gpuproof.serve.errors import LoadError
from gpuproof.serve.frontend.gauges import gauges
from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.frontend.multi_model import ModelManager
from gpuproof.serve.frontend.routes import Router
from gpuproof.serve.frontend.verdict import server_verdict
from gpuproof.serve.http.parser import Head
from gpuproof.serve.http.server import HttpServer
from gpuproof.serve.http.state import Limits
from gpuproof.serve.ipc.messages import DeviceMessage, LoadedMessage
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.observability.access_log import AccessLog, open_stream
from gpuproof.serve.observability.gpu_monitor import GpuMonitor
from gpuproof.serve.observability.request_record import RequestMetrics, RequestRecord
from gpuproof.serve.observability.tracing import span_writer
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.available_memory import read_memory
from gpuproof.serve.workers.device_assignment import DeviceAssignment, assign_devices
from gpuproof.serve.workers.restart_policy import Slot
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.serve.workers.supervisor import GRACE_S, Supervisor, SupervisorEvents
from gpuproof.util.log import without_escapes

INFO = 20
"""The log level of the access log, in Python's numbering."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOP_WORKERS_S = 3.0
_GPU_BASELINE_S = 10.0
_FLUSH_SPANS_S = 1.0
"""SageMaker sends SIGKILL 30 s after SIGTERM: draining takes up to 25 s of them, and stopping the workers 3 s."""
_DUPLICATE_S = 0.5
"""A signal to a process group arrives twice: directly, and forwarded by the parent."""


@dataclass(frozen=True)
class Options:
    """Options of the server that have no environment variable.

    Args:
        load_once: do not retry if the model cannot be loaded; wait until its files change and it is reloaded.
        leave_on_failure: do not retry if the model cannot be loaded; exit instead of reporting it on `/ping`.
        grace_s: how long a worker may exceed the timeout before it is killed, in seconds.
        limits: timeouts and memory limit of the HTTP server.
        with_parent: end the server when the process that started it ends.
        root: the file system in which the driver's and the image's libraries are looked for.
    """

    access_log: bool = True
    load_once: bool = False
    leave_on_failure: bool = False
    grace_s: float = GRACE_S
    limits: Limits = field(default_factory=Limits)
    ready_fd: int | None = None
    with_parent: bool = False
    root: Path = Path("/")


class Frontend:
    """The server: its port, its models and its logs."""

    def __init__(
        self,
        settings: Settings,
        model_dir: Path,
        options: Options,
        spawner: Spawner,
        environ: Mapping[str, str],
        driver: DriverLibrary | None = None,
    ) -> None:
        self._settings = settings
        self._model_dir = model_dir
        self._options = options
        self._spawner = spawner
        self._environ = environ
        self._driver = driver
        self._started_at = time.monotonic()
        self._totals = RequestMetrics()
        enabled = options.access_log and settings.log_level <= INFO
        self._spans = span_writer(environ, log)
        self._log = AccessLog(open_stream() if enabled else None, self._spans)
        self._core = InferenceCore(settings, self._observe)
        self._stop_signals = 0
        self._stopped_at = float("-inf")
        self._answered = 0
        self._manager: ModelManager | None = None
        self._gpus = GpuMonitor([], lambda: 0, log, log)
        self._devices: list[str] = []
        """The kind of each worker's device."""
        self._stopping: asyncio.Event | None = None
        self._code = 0
        self._ready = False
        """Whether all workers have been ready once."""

    async def run(self, received: Sequence[int] = ()) -> int:
        """Serve until a stop signal arrives, and return the exit code.

        Args:
            received: stop signals that were received before.
        """
        self._stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_stop_signal)
        if received:
            self._spawner.close()
            return 0
        memory = BodyMemory.create()
        events = SupervisorEvents(log, self._on_loaded, self._on_abandoned, self._on_device_checked)
        supervisor = Supervisor(
            self._settings,
            self._core.models,
            self._spawner,
            own_command(),
            self._environ,
            events,
            self._options.grace_s,
            memory,
            load_once=self._settings.multi_model or self._options.leave_on_failure or self._options.load_once,
        )
        if self._settings.multi_model:
            self._manager = ModelManager(
                self._core, supervisor, lambda: self._assign_one_more(assignments), read_memory, log
            )
        router = Router(self._core, self._metrics, self._manager, self._verdict)
        limits = self._options.limits
        server = HttpServer(
            router,
            replace(limits, body_s=min(limits.body_s, self._settings.timeout_s)),
            lambda head, status: self._on_rejected(router, head, status),
            memory,
            log,
        )
        self._core.starting = True
        port = await self._listen(server)
        self._announce(port)
        # In a thread: the driver may take seconds to initialize, and /ping must respond meanwhile.
        assignments = await loop.run_in_executor(None, self._assign_devices)
        self._require_gpu(assignments)
        self._log.start()
        supervisor.start()
        self._core.starting = False
        self._monitor_gpus(assignments, loop)
        if self._settings.require_gpu:
            # Its result makes the server unhealthy: the baseline must be taken before workers use memory.
            await loop.run_in_executor(None, self._gpus.wait_for_baseline, _GPU_BASELINE_S)
        if self._manager is not None:
            self._manager.watch_memory()
        else:
            model = supervisor.serve("model", self._model_dir, str(self._model_dir), assignments)
            # Sent by `gpuproof serve --dev` when the model's files have changed.
            loop.add_signal_handler(signal.SIGHUP, supervisor.reload, model)
        lost = loop.create_task(supervisor.spawner_lost.wait())
        stopping = loop.create_task(self._stopping.wait())
        await asyncio.wait([lost, stopping], return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            log("the process that starts the workers was killed; stopping the server")
            self._code = 1
        else:
            await self._drain(server)
        self._core.closed = True
        for model in self._core.models.values():
            model.dispatcher.reject_all(503, "the server is shutting down")
        await supervisor.end(_STOP_WORKERS_S)
        server.close()
        self._log.stop()
        if self._spans is not None:
            self._spans.close(_FLUSH_SPANS_S if self._stop_signals < 2 else 0.0)
        for task in (lost, stopping):
            task.cancel()
        return self._code

    async def _listen(self, server: HttpServer) -> int:
        host, port = self._settings.host, self._settings.port
        try:
            return await server.start(host, port)
        except OSError as error:
            number = error.errno or 0
            # asyncio adds text to the system's message; negative numbers come from the resolver.
            why = os.strerror(number) if number > 0 else error.strerror
            raise LoadError(
                f"Cannot listen on port {port} of {host}: {why}.",
                remedy="Another server uses the port: set SAGEMAKER_BIND_TO_PORT or --port."
                if number == errno.EADDRINUSE
                else "Set --host and --port, or GPUPROOF_SERVE_HOST and SAGEMAKER_BIND_TO_PORT.",
            ) from error

    async def _drain(self, server: HttpServer) -> None:
        """Complete the requests in progress and accept no more."""
        self._core.draining = True
        server.stop_accepting()
        deadline = time.monotonic() + self._settings.drain_s
        while time.monotonic() < deadline and self._stop_signals < 2:
            if not self._core.busy and server.idle:
                return
            await asyncio.sleep(0.02)

    def _on_stop_signal(self) -> None:
        now = time.monotonic()
        if self._options.with_parent and now - self._stopped_at < _DUPLICATE_S:
            return
        self._stopped_at = now
        self._stop_signals += 1
        assert self._stopping is not None
        self._stopping.set()

    def _observe(self, record: RequestRecord) -> None:
        self._totals.add(record)
        self._answered += 200 <= record.status < 300
        self._log.add(record)

    def _on_rejected(self, router: Router, head: Head | None, status: int) -> None:
        """Count and log a request that was rejected before it was complete, with a duration of 0."""
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
        path = router.metrics_path(head.path) if head is not None else "other"
        self._observe(RequestRecord(time.time(), method, path, status, 0.0, 0, 0))

    def _metrics(self) -> Iterator[str]:
        yield from self._totals.lines()
        yield from gauges(self._core)
        yield from self._gpus.lines()

    def _verdict(self) -> dict[str, object]:
        problems = [text for model in self._core.models.values() for text in model.health.misplaced.values()]
        if self._core.trouble is not None:
            problems.append(self._core.trouble)
        return server_verdict(self._devices, problems, self._gpus.usage, self._answered, self._driver)

    def _assign_one_more(self, assignments: list[DeviceAssignment]) -> list[DeviceAssignment]:
        """The assignments for one more model: models are distributed over the GPUs in turn."""
        count = self._settings.workers or 1
        first = sum(model.health.wanted for model in self._core.models.values())
        return [assignments[(first + number) % len(assignments)] for number in range(count)]

    def _require_gpu(self, assignments: list[DeviceAssignment]) -> None:
        """Make the server unhealthy if it requires a GPU and there is none."""
        if self._settings.require_gpu and not any(
            assignment.device.kind == "cuda" for assignment in assignments
        ):
            self._core.trouble = (
                "a GPU is required, but no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"
            )
            log(f"the server stays unhealthy: {self._core.trouble}")

    def _monitor_gpus(self, assignments: list[DeviceAssignment], loop: asyncio.AbstractEventLoop) -> None:
        self._devices = [assignment.device.kind for assignment in assignments]
        indexes = {
            assignment.device.nvml_index
            for assignment in assignments
            if assignment.device.nvml_index is not None
        }
        self._gpus = GpuMonitor(
            sorted(indexes),
            lambda: self._answered,
            lambda text: log(f"warning: {text}"),
            lambda text: loop.call_soon_threadsafe(self._on_gpus_unused, text),
        )
        self._gpus.start()

    def _assign_devices(self) -> list[DeviceAssignment]:
        from gpuproof.gpu.nvml import count_gpus  # once the port is open: it may take seconds

        try:
            cpus = len(os.sched_getaffinity(0))
        except AttributeError:
            cpus = os.cpu_count() or 1
        return assign_devices(self._settings, self._environ, count_gpus(), cpus)

    def _on_loaded(self, slot: Slot, message: LoadedMessage) -> None:
        self._on_device_checked(slot, message)
        if self._manager is not None:
            self._manager.on_loaded(slot)
        health = slot.model.health
        if len(health.loaded) < health.wanted or self._core.unhealthy is not None:
            return
        if self._manager is not None:
            log(f"{slot.model.name} is loaded ({health.wanted} x {slot.assignment.device.name})")
            return
        if self._ready:
            log(f"worker {slot.index} of {slot.model.name} is ready again")
            return
        self._ready = True
        took = time.monotonic() - self._started_at
        log(f"ready after {took:.2f} s ({health.wanted} x {slot.assignment.device.name})")

    def _on_device_checked(self, slot: Slot, message: DeviceMessage) -> None:
        """Log where a model is: when it is loaded, and after its first responses if it was on the CPU."""
        before = slot.model.health.misplaced.pop(slot.index, "")
        text = message["placement"]
        if not message["on_device"]:
            slot.model.health.misplaced[slot.index] = text
            if text != before:
                log(f"warning: {text}")
        elif before:
            log(f"the model is now on {slot.assignment.device.name}")
        elif text:
            log(text)

    def _on_gpus_unused(self, text: str) -> None:
        log(f"warning: {text}")
        if self._settings.require_gpu:
            self._core.trouble = text

    def _on_abandoned(self, slot: Slot) -> None:
        if self._manager is not None:
            self._manager.on_abandoned(slot)
        elif self._options.leave_on_failure and not slot.model.health.loaded:
            self._code = 1
            self._on_stop_signal()
        elif self._options.load_once:
            log("waiting for its files to change")

    def _announce(self, port: int) -> None:
        host = self._settings.host
        log(f"listening at {host}" if host.startswith("/") else f"listening at {host}:{port}")
        if self._options.ready_fd is not None:
            os.write(self._options.ready_fd, f"{port}\n".encode())
            os.close(self._options.ready_fd)


def own_command() -> list[str]:
    """The command that starts the server's other processes, from the agent's archive or an installed GPUproof."""
    archive = Path(__file__).parents[3]
    if archive.is_file():
        return [sys.executable, str(archive)]
    return [sys.executable, "-m", "gpuproof.serve"]


def log(text: str) -> None:
    """Write a line to the server's log, on standard error."""
    try:
        sys.stderr.write(f"gpuproof serve: {without_escapes(text).rstrip()}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # A full disk or a closed pipe must not stop the server.
        return
