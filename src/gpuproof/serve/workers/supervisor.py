"""Starts worker processes, replaces those that die, and ends them all."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from gpuproof.serve.ipc.messages import DeviceMessage, LoadedMessage, LoadFailedMessage, WorkerConfig
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.decoder_client import DecoderClient
from gpuproof.serve.workers.device_assignment import DeviceAssignment
from gpuproof.serve.workers.dispatcher import Dispatcher
from gpuproof.serve.workers.model_state import ModelHealth, ModelState
from gpuproof.serve.workers.reload import plan_reload, successor_of
from gpuproof.serve.workers.restart_policy import Slot, describe_exit
from gpuproof.serve.workers.shared_status import DUMP_STACK_SIGNAL, TIMEOUT_SIGNAL, SharedStatus
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.serve.workers.worker_client import WorkerClient

GRACE_S = 5.0
_LOADING_STEP_S = 1.0
_DUMP_STACK_S = 0.2
"""For a hung worker to write its stack before it is killed."""


@dataclass
class SupervisorEvents:
    """Callbacks of the supervisor."""

    log: Callable[[str], None]
    """Writes a line to the log."""
    on_loaded: Callable[[Slot, LoadedMessage], None] = field(default=lambda _slot, _message: None)
    """A worker has loaded its model."""
    on_abandoned: Callable[[Slot], None] = field(default=lambda _slot: None)
    """A slot was abandoned: no worker is started in it any more."""
    on_device_checked: Callable[[Slot, DeviceMessage], None] = field(default=lambda _slot, _message: None)
    """A worker has checked its model's device again, which was wrong when the model was loaded."""


class Supervisor:
    """All workers of a server. Receives the events of workers (`WorkerEvents`).

    Args:
        models: the models being served, by name; `serve` adds to it.
        spawner: starts the processes.
        command: starts the server's own program; the kind of process and one argument are added.
        grace_s: how long a worker may exceed the timeout before it is killed, in seconds.
        load_once: abandon a slot at the first failure to load a model that has never been loaded.
    """

    def __init__(
        self,
        settings: Settings,
        models: dict[str, ModelState],
        spawner: Spawner,
        command: Sequence[str],
        environ: Mapping[str, str],
        events: SupervisorEvents,
        grace_s: float = GRACE_S,
        memory: BodyMemory | None = None,
        *,
        load_once: bool = False,
    ) -> None:
        self._settings = settings
        self._models = models
        self._spawner = spawner
        self._command = [*command, "worker"]
        self._memory = memory
        self._decoder: DecoderClient | None = None
        if memory is not None:
            self._decoder = DecoderClient(spawner, [*command, "decoder"], environ, memory, events.log)
        self._environ = dict(environ)
        self._events = events
        self._grace = grace_s
        self._load_once = load_once
        self._numbers = itertools.count(1)
        self._slots: dict[int, Slot] = {}
        """Slots with a worker, by the worker's number."""
        self._abandoned: list[Slot] = []
        """Slots that stay empty until the model is reloaded."""
        self._stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.spawner_lost = asyncio.Event()

    @property
    def running(self) -> list[WorkerClient]:
        """Workers whose processes have not been reported as ended."""
        return [slot.worker for slot in self._slots.values() if slot.worker is not None]

    def start(self) -> None:
        """Start receiving the spawner's messages."""
        self._spawner.channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._spawner.channel.fileno(), self._on_spawner_readable)

    def serve(self, name: str, folder: Path, url: str, assignments: Sequence[DeviceAssignment]) -> ModelState:
        """Start a model's workers."""
        settings = self._settings
        dispatcher = Dispatcher(
            max_queue=settings.max_queue,
            max_bytes=max(8 * min(settings.max_payload, 1 << 30), 1 << 28),
            timeout_s=settings.timeout_s,
            grace_s=self._grace,
            on_slow=lambda worker: self._spawner.signal(worker.number, TIMEOUT_SIGNAL),
            on_hung=self._kill_hung,
            decoder=self._decoder,
        )
        model = ModelState(name, url, dispatcher, ModelHealth(len(assignments)))
        self._models[name] = model
        for index, assignment in enumerate(assignments):
            self._spawn(Slot(index, assignment, model, folder))
        return model

    def reload(self, model: ModelState) -> None:
        """Load the model again while its present workers continue; each ends when its successor is ready."""
        plan = plan_reload(self.slots_of(model), [slot for slot in self._abandoned if slot.model is model])
        self._clear_abandoned(model)
        model.health.lost.clear()
        for worker in plan.kill:
            self._spawner.signal(worker.number, signal.SIGKILL)
        for slot in plan.start:
            self._spawn(slot)

    def stop(self, model: ModelState) -> None:
        """End a model's workers when they have answered their requests."""
        self._clear_abandoned(model)
        for slot in self.slots_of(model):
            slot.abandoned = True
            if slot.worker is not None:
                slot.worker.stop()

    def slots_of(self, model: ModelState) -> list[Slot]:
        """A model's slots that have a worker."""
        return [slot for slot in self._slots.values() if slot.model is model]

    async def end(self, patience_s: float) -> None:
        """Ask all workers to exit, and kill those that have not after `patience_s` seconds."""
        self._stopping = True
        if self._decoder is not None:
            self._decoder.close()
        for worker in self.running:
            if worker.ready:
                worker.stop()
            else:
                # It reads nothing from its socket before it has loaded its model.
                self._spawner.signal(worker.number, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + patience_s
        while self.running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().remove_reader(self._spawner.channel.fileno())
        self._spawner.close()

    def on_loaded(self, worker: WorkerClient, message: LoadedMessage) -> None:
        """Send requests to the worker, and retire the worker that it replaces."""
        slot = self._slots.get(worker.number)
        if slot is None or slot.abandoned:
            return
        slot.model.dispatcher.add(worker)
        self._retire_predecessor(slot)
        slot.model.health.loaded.add(slot.index)
        slot.model.health.crashing.pop(slot.index, None)
        self._events.on_loaded(slot, message)

    def on_load_failed(self, worker: WorkerClient, message: LoadFailedMessage) -> None:
        """Log why the model cannot be loaded."""
        slot = self._slots.get(worker.number)
        if slot is None:
            return
        slot.load_error = message["message"]
        slot.load_cause = _client_cause(message)
        slot.out_of_memory = message["out_of_memory"]
        # The traceback ends with what the message says.
        text = f"{message['headline']}\n{message['details']}" if message["details"] else message["message"]
        parts = (text.rstrip(), message["remedy"])
        self._events.log(f"{slot.model.name} cannot be loaded: " + "\n".join(part for part in parts if part))
        slot.load_error_logged = True

    def on_responses(self, worker: WorkerClient) -> None:
        """Dispatch further requests."""
        slot = self._slots.get(worker.number)
        if slot is not None:
            slot.model.dispatcher.dispatch_soon()

    def on_device_checked(self, worker: WorkerClient, message: DeviceMessage) -> None:
        """Report where the worker's model is."""
        slot = self._slots.get(worker.number)
        if slot is not None:
            self._events.on_device_checked(slot, message)

    def on_disconnect(self, worker: WorkerClient) -> None:
        """Kill a worker that has closed its socket: it is of no use even if it is alive."""
        self._spawner.signal(worker.number, signal.SIGKILL)

    def _spawn(self, slot: Slot) -> None:
        # A model that was unloaded before one of its workers is restarted stays unloaded.
        unloaded = self._models.get(slot.model.name) is not slot.model
        if self._stopping or slot.abandoned or unloaded:
            return
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
        ours.setblocking(False)
        status = SharedStatus.create()
        settings = self._settings
        worker = WorkerClient(number, slot.index, status, settings.timeout_s, self, self._memory)
        slot.worker = worker
        slot.load_error, slot.load_error_logged = "", False
        self._slots[number] = slot
        config: WorkerConfig = {
            "folder": str(slot.folder),
            "name": slot.model.name,
            "device": asdict(slot.assignment.device),
            # The command line is readable by other users of the machine.
            "settings": asdict(replace(settings, models_token="")),
        }
        environment = {**self._environ, **slot.assignment.environment}
        descriptors = {"channel": theirs.fileno(), "status": status.descriptor}
        if self._memory is not None:
            descriptors["memory"] = self._memory.readable
        self._spawner.spawn(number, [*self._command, json.dumps(config)], environment, descriptors)
        theirs.close()
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.create_connection(lambda: worker, sock=ours))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._await_loading(worker, settings.startup_timeout_s)

    def _await_loading(self, worker: WorkerClient, left_s: float) -> None:
        """Kill the worker if loading takes too long. Counts in steps, so that a suspension counts as one step."""
        slot = self._slots.get(worker.number)
        if slot is None or worker.loaded:
            return
        if left_s > 0:
            step = min(left_s, _LOADING_STEP_S)
            asyncio.get_running_loop().call_later(step, self._await_loading, worker, left_s - step)
            return
        slot.load_error = f"loading took longer than {self._settings.startup_timeout_s:g} s"
        self._spawner.signal(worker.number, signal.SIGKILL)

    def _on_spawner_readable(self) -> None:
        messages = self._spawner.messages()
        if messages is None:
            asyncio.get_running_loop().remove_reader(self._spawner.channel.fileno())
            self.spawner_lost.set()
            return
        for message in messages:
            if "started" in message:
                slot = self._slots.get(message["started"])
                if slot is not None and slot.worker is not None:
                    slot.worker.pid = message["pid"]
            else:
                self._on_exit(message)

    def _on_exit(self, message: dict[str, Any]) -> None:
        if self._decoder is not None:
            self._decoder.on_exit(message["ended"])
        slot = self._slots.pop(message["ended"], None)
        if slot is None or slot.worker is None:
            return
        worker, slot.worker = slot.worker, None
        # Responses that it wrote before its end may still be in its socket: read these first.
        loop = asyncio.get_running_loop()
        loop.call_later(0.0 if worker.loaded else 0.05, self._after_exit, slot, worker, message)

    def _after_exit(self, slot: Slot, worker: WorkerClient, message: dict[str, Any]) -> None:
        exit_text = describe_exit(message)
        slot.model.dispatcher.remove(
            worker, f"the model's process ended ({exit_text}) while it computed this request"
        )
        worker.close()
        worker.status.close()
        if self._stopping or slot.abandoned:
            return
        slot.record_exit(worker, message)
        successor = successor_of(worker, self.slots_of(slot.model))
        if successor is not None:
            # It is starting already; if it fails, there is no old worker to continue.
            successor.replaces = None
            return
        if slot.replaces is not None:
            slot.abandoned = True
            self._events.log("the changed model cannot be loaded; the previous one stays in service")
            return
        if slot.exhausted or (self._load_once and not slot.model.health.loaded):
            self._abandon(slot, slot.load_error or _exit_reason(slot, worker, exit_text))
        else:
            self._restart(slot, exit_text)

    def _restart(self, slot: Slot, exit_text: str) -> None:
        self._events.log(
            f"worker {slot.index} of {slot.model.name} ended ({exit_text}); restarting it in {slot.restart_delay_s:g} s"
        )
        if slot.crash_looping:
            slot.model.health.crashing[slot.index] = (
                f"{slot.crashes} workers in a row ended without a response ({exit_text}); restarting"
            )
        asyncio.get_running_loop().call_later(slot.restart_delay_s, self._spawn, slot)

    def _abandon(self, slot: Slot, reason: str) -> None:
        slot.abandoned = True
        # The complete text is in the log already; pip's errors, for example, have many lines.
        slot.load_error = reason = reason.partition("\n")[0]
        self._abandoned.append(slot)
        slot.model.health.lost.append(f"a worker is lost: {reason}")
        why = "its model cannot be loaded" if slot.load_error_logged else reason
        self._events.log(f"worker {slot.index} of {slot.model.name} is not restarted: {why}")
        if not self.slots_of(slot.model):
            slot.model.dispatcher.reject_queued(503, "the model cannot be served; see the server's log")
        self._events.on_abandoned(slot)

    def _retire_predecessor(self, slot: Slot) -> None:
        predecessor, slot.replaces = slot.replaces, None
        if predecessor is None:
            return
        old = self._slots.get(predecessor.number)
        if old is not None:
            old.abandoned = True
            old.model.dispatcher.retire(predecessor)

    def _kill_hung(self, worker: WorkerClient) -> None:
        slot = self._slots.get(worker.number)
        if slot is not None and worker.ready:
            # Only once; its exit is reported later.
            worker.ready = False
            self._events.log(f"worker {slot.index} of {slot.model.name} hangs and is killed; its stack:")
            with contextlib.suppress(KeyError):
                del slot.model.dispatcher.workers[worker.number]
            self._spawner.signal(worker.number, DUMP_STACK_SIGNAL)
            asyncio.get_running_loop().call_later(
                _DUMP_STACK_S, self._spawner.signal, worker.number, signal.SIGKILL
            )

    def _clear_abandoned(self, model: ModelState) -> None:
        self._abandoned = [slot for slot in self._abandoned if slot.model is not model]


def _exit_reason(slot: Slot, worker: WorkerClient, exit_text: str) -> str:
    return f"worker {slot.index} ended ({exit_text})" + (
        "" if worker.loaded else " while it loaded the model"
    )


def _client_cause(message: LoadFailedMessage) -> str:
    """Why a model cannot be loaded, for clients: in one line, and without what the handler raised."""
    if message["details"]:
        headline = message["headline"].partition("\n")[0].rstrip(":.")
        return f"{headline}; see the server's log"
    return " ".join([message["message"].partition("\n")[0], *(message["remedy"] or "").splitlines()])
