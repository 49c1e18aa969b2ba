"""Starts predictors, replaces those that die, and ends them all: the part of the front that knows of processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Callable

from gpuproof.serve.frontend.dispatcher import Pool
from gpuproof.serve.frontend.inference import Health, InferenceCore, Served
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.workers.decoder_client import BodyReader
from gpuproof.serve.workers.device_assignment import Placement
from gpuproof.serve.workers.shared_status import LATE_SIGNAL, PLACE_SIGNAL, Board
from gpuproof.serve.workers.slot import Slot, how_it_ended
from gpuproof.serve.workers.spawner import Spawner
from gpuproof.serve.workers.worker_client import Worker

GRACE_S = 5.0
_LOADING_STEP_S = 1.0
_TELLS_S = 0.2
"""For a predictor to write where it hangs."""


@dataclass
class Events:
    """Whom the supervisor tells."""

    say: Callable[[str], None]
    """A line for the log."""
    loaded: Callable[[Slot, dict[str, Any]], None] = field(default=lambda _slot, _told: None)
    failed: Callable[[Slot], None] = field(default=lambda _slot: None)
    """A place stays empty for good."""
    placed: Callable[[Slot, dict[str, Any]], None] = field(default=lambda _slot, _told: None)
    """Where a model is after the first answers, that was not on its device when it was loaded."""


class Supervisor:
    """All predictors of this server.

    Args:
        core: told of models and predictors as they come and go.
        spawner: starts the processes.
        command: starts the server's own program; the part of a process and one argument are added.
        environ: their environment, but for what their placements add.
        events: told what a person should know.
        grace_s: how long beyond the time-out a predictor may hang.
        memory: where large bodies lie.
        load_once: somebody waits to hear that a model cannot be loaded; nothing is tried again before that.
    """

    def __init__(
        self,
        core: InferenceCore,
        spawner: Spawner,
        command: Sequence[str],
        environ: Mapping[str, str],
        events: Events,
        grace_s: float = GRACE_S,
        memory: BodyMemory | None = None,
        *,
        load_once: bool = False,
    ) -> None:
        self._core = core
        self._spawner = spawner
        self._command = [*command, "predictor"]
        self._memory = memory
        self._reader: BodyReader | None = None
        if memory is not None:
            self._reader = BodyReader(spawner, [*command, "reader"], environ, memory, events.say)
        self._environ = dict(environ)
        self._events = events
        self._grace = grace_s
        self._load_once = load_once
        self._numbers = itertools.count(1)
        self._slots: dict[int, Slot] = {}
        self._empty: list[Slot] = []
        """Places that stay empty until the model is loaded again."""
        self._stopping = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.spawner_lost = asyncio.Event()

    @property
    def running(self) -> list[Worker]:
        """Every predictor whose process has not been reported as ended."""
        return [slot.worker for slot in self._slots.values() if slot.worker is not None]

    def start(self) -> None:
        """Listen to the spawner."""
        self._spawner.channel.setblocking(False)
        asyncio.get_running_loop().add_reader(self._spawner.channel.fileno(), self._hear)

    def serve(self, name: str, folder: Path, url: str, placed: Sequence[Placement]) -> Served:
        """Start a model's predictors."""
        settings = self._core.settings
        pool = Pool(
            max_queue=settings.max_queue,
            max_bytes=max(8 * min(settings.max_payload, 1 << 30), 1 << 28),
            timeout_s=settings.timeout_s,
            grace_s=self._grace,
            on_late=lambda worker: self._spawner.signal(worker.number, LATE_SIGNAL),
            on_hung=self._kill_hung,
            reader=self._reader,
        )
        served = Served(name, url, pool, Health(len(placed)))
        self._core.models[name] = served
        for index, placement in enumerate(placed):
            self._spawn(Slot(index, placement, served, folder))
        return served

    def reload(self, served: Served) -> None:
        """Load the model again, beside the predictors that there are; each ends when its successor has loaded.

        What is still loading begins anew, since it may have read what has changed; places that are lost are filled again.
        """
        slots = [slot for slot in self._slots_of(served) if not slot.given_up]
        succeeded = [slot.replaces for slot in slots]
        for slot in slots:
            worker = slot.worker
            if worker is None or worker in succeeded:
                continue
            if worker.ready:
                self._spawn(slot.anew(replaces=worker))
                continue
            slot.given_up = True
            self._spawner.signal(worker.number, signal.SIGKILL)
            self._spawn(slot.anew(replaces=slot.replaces))
        lost = [slot for slot in self._empty if slot.served is served]
        self._forget_empty(served)
        served.health.lost.clear()
        for slot in lost:
            self._spawn(slot.anew())

    def stop(self, served: Served) -> None:
        """End a model's predictors once they have answered what they have."""
        self._forget_empty(served)
        for slot in self._slots_of(served):
            slot.given_up = True
            if slot.worker is not None:
                slot.worker.stop()

    def slots_of(self, served: Served) -> list[Slot]:
        """A model's places that are filled."""
        return self._slots_of(served)

    async def end(self, patience_s: float) -> None:
        """End all predictors: ask, and kill those that have not ended in time."""
        self._stopping = True
        if self._reader is not None:
            self._reader.close()
        for worker in self.running:
            if worker.ready:
                worker.stop()
            else:
                # It reads nothing before it has loaded its model.
                self._spawner.signal(worker.number, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + patience_s
        while self.running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().remove_reader(self._spawner.channel.fileno())
        self._spawner.close()

    def _spawn(self, slot: Slot) -> None:
        # A model that was unloaded while one of its predictors was about to be started again stays unloaded.
        unloaded = self._core.models.get(slot.served.name) is not slot.served
        if self._stopping or slot.given_up or unloaded:
            return
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
        ours.setblocking(False)
        board = Board.make()
        settings = self._core.settings
        worker = Worker(
            number,
            slot.index,
            board,
            settings.timeout_s,
            self._loaded,
            self._load_failed,
            self._answered,
            self._placed,
            # A process without its socket is of no use, even if it lives on.
            lambda lost: self._spawner.signal(lost.number, signal.SIGKILL),
            self._memory,
        )
        slot.worker = worker
        slot.reason = ""
        self._slots[number] = slot
        told = {
            "folder": str(slot.folder),
            "name": slot.served.name,
            "device": asdict(slot.placement.device),
            "settings": asdict(settings),
        }
        environment = {**self._environ, **slot.placement.environment}
        descriptors = {"channel": theirs.fileno(), "board": board.descriptor}
        if self._memory is not None:
            descriptors["memory"] = self._memory.readable
        self._spawner.spawn(number, [*self._command, json.dumps(told)], environment, descriptors)
        theirs.close()
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.create_connection(lambda: worker, sock=ours))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._await_loading(worker, settings.startup_timeout_s)

    def _await_loading(self, worker: Worker, left_s: float) -> None:
        """Give it so much more time: in steps, for one in which the whole server stood still counts as one."""
        slot = self._slots.get(worker.number)
        if slot is None or worker.loaded:
            return
        if left_s > 0:
            step = min(left_s, _LOADING_STEP_S)
            asyncio.get_running_loop().call_later(step, self._await_loading, worker, left_s - step)
            return
        slot.reason = f"loading took longer than {self._core.settings.startup_timeout_s:g} s"
        self._spawner.signal(worker.number, signal.SIGKILL)

    def _hear(self) -> None:
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
                self._ended(message)

    def _ended(self, message: dict[str, Any]) -> None:
        if self._reader is not None:
            self._reader.ended(message["ended"])
        slot = self._slots.pop(message["ended"], None)
        if slot is None or slot.worker is None:
            return
        worker, slot.worker = slot.worker, None
        # What it still wrote is in its socket: answers first, then its end.
        loop = asyncio.get_running_loop()
        loop.call_later(0.0 if worker.loaded else 0.05, self._after_end, slot, worker, message)

    def _after_end(self, slot: Slot, worker: Worker, message: dict[str, Any]) -> None:
        how = how_it_ended(message)
        slot.served.pool.lose(worker, f"the model's process ended ({how}) while it computed this request")
        worker.close()
        worker.board.close()
        if self._stopping or slot.given_up:
            return
        slot.fell_empty(worker, message)
        successor = next(
            (s for s in self._slots_of(slot.served) if s.replaces is worker and not s.given_up), None
        )
        if successor is not None:
            # It is on its way already, and there is nobody left to go on if it fails.
            successor.replaces = None
            return
        reason = slot.reason or f"predictor {slot.index} ended ({how})" + (
            "" if worker.loaded else " while it loaded the model"
        )
        if slot.replaces is not None:
            slot.given_up = True
            self._events.say("the model as it is now cannot be loaded; the one before goes on")
            return
        first_load = self._load_once and not slot.served.health.loaded
        if slot.hopeless or first_load:
            self._give_up(slot, reason)
            return
        self._events.say(
            f"predictor {slot.index} of {slot.served.name} ended ({how}); a new one in {slot.pause_s:g} s"
        )
        if slot.tired:
            slot.served.health.resting[slot.index] = (
                f"{slot.deaths} predictors in a row ended without an answer ({how}); a new one is on its way"
            )
        asyncio.get_running_loop().call_later(slot.pause_s, self._spawn, slot)

    def _give_up(self, slot: Slot, reason: str) -> None:
        slot.given_up = True
        # All of it has been said; pip's words, for one, are many lines.
        slot.reason = reason = reason.partition("\n")[0]
        self._empty.append(slot)
        slot.served.health.lost.append(f"a predictor is lost: {reason}")
        self._events.say(f"predictor {slot.index} of {slot.served.name} is not started again: {reason}")
        if not self._slots_of(slot.served):
            slot.served.pool.refuse_all(503, "the model cannot be served; the server's log says why")
        self._events.failed(slot)

    def _loaded(self, worker: Worker, told: dict[str, Any]) -> None:
        slot = self._slots.get(worker.number)
        if slot is None or slot.given_up:
            return
        slot.served.pool.add(worker)
        self._retire(slot)
        slot.served.health.loaded.add(slot.index)
        slot.served.health.resting.pop(slot.index, None)
        self._events.loaded(slot, told)

    def _retire(self, slot: Slot) -> None:
        before, slot.replaces = slot.replaces, None
        if before is None:
            return
        old = self._slots.get(before.number)
        if old is not None:
            old.given_up = True
            old.served.pool.retire(before)

    def _load_failed(self, worker: Worker, told: dict[str, Any]) -> None:
        slot = self._slots.get(worker.number)
        if slot is None:
            return
        slot.reason = told["message"]
        slot.out_of_memory = bool(told.get("out_of_memory"))
        words = "\n".join(word for word in (told["message"], told.get("details"), told.get("remedy")) if word)
        self._events.say(f"{slot.served.name} cannot be loaded: {words}")

    def _placed(self, worker: Worker, told: dict[str, Any]) -> None:
        slot = self._slots.get(worker.number)
        if slot is not None:
            self._events.placed(slot, told)

    def _answered(self, worker: Worker) -> None:
        slot = self._slots.get(worker.number)
        if slot is not None:
            slot.served.pool.dispatch_soon()

    def _kill_hung(self, worker: Worker) -> None:
        slot = self._slots.get(worker.number)
        if slot is not None and worker.ready:
            # Once: its end will be reported.
            worker.ready = False
            self._events.say(f"predictor {slot.index} of {slot.served.name} hangs and is killed; it is here:")
            with contextlib.suppress(KeyError):
                del slot.served.pool.workers[worker.number]
            self._spawner.signal(worker.number, PLACE_SIGNAL)
            asyncio.get_running_loop().call_later(
                _TELLS_S, self._spawner.signal, worker.number, signal.SIGKILL
            )

    def _forget_empty(self, served: Served) -> None:
        self._empty = [slot for slot in self._empty if slot.served is not served]

    def _slots_of(self, served: Served) -> list[Slot]:
        return [slot for slot in self._slots.values() if slot.served is served]
