"""The predictors of one model and the requests that wait for them: queue, limits, deadlines, the least loaded first."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Callable

from gpuproof.serve.frontend.pending_request import Call
from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.workers.decoder_client import BodyReader
from gpuproof.serve.workers.suspend_detector import Stops
from gpuproof.serve.workers.worker_client import Worker

_TICK_S = 0.05
_BYTES_AHEAD = 32 * 1024 * 1024
"""Bodies beyond this wait in the front rather than in a busy predictor's socket."""


class Pool:
    """One model's predictors.

    Args:
        max_queue: so many requests may wait.
        max_bytes: so many bytes of bodies may wait.
        timeout_s: how long one call of a user's function may take.
        grace_s: how long beyond that, until its predictor is killed.
        on_late: told of a predictor that should look whether it has been at it for too long.
        on_hung: told of a predictor that must be killed.
        reader: reads large bodies while the predictors are busy.
    """

    def __init__(
        self,
        max_queue: int,
        max_bytes: int,
        timeout_s: float,
        grace_s: float,
        on_late: Callable[[Worker], None],
        on_hung: Callable[[Worker], None],
        reader: BodyReader | None = None,
    ) -> None:
        self.workers: dict[int, Worker] = {}
        self.queue: deque[Call] = deque()
        self.reading: dict[int, Call] = {}
        """Requests whose bodies the reader is at; they go to the queue's end."""
        self.waiting_bytes = 0
        self.last_used = time.monotonic()
        self._max_queue = max_queue
        self._max_bytes = max_bytes
        self._timeout = timeout_s
        self._grace = grace_s
        self._on_late = on_late
        self._on_hung = on_hung
        self._reader = reader
        self._dispatching = False
        self._ticking = False
        self._stops = Stops(_TICK_S)
        self._went_on = 0.0
        """When the whole server last ran again after it had been stopped."""
        self._late: set[int] = set()

    @property
    def in_flight(self) -> int:
        """Requests that are with predictors."""
        return sum(len(worker.calls) for worker in self.workers.values())

    @property
    def waiting(self) -> int:
        """Requests that are not with predictors yet."""
        return len(self.queue) + len(self.reading)

    @property
    def idle(self) -> bool:
        """Whether nobody waits for an answer."""
        return not self.waiting and all(
            call.done for worker in self.workers.values() for call in worker.calls.values()
        )

    @property
    def full(self) -> bool:
        """Whether one more request must be refused."""
        return len(self.queue) + len(self.reading) >= self._max_queue or self.waiting_bytes > self._max_bytes

    @property
    def retry_after_s(self) -> int:
        """When a refused client should ask again: how long the queue will take, in whole seconds."""
        ready = [worker for worker in self.workers.values() if worker.ready]
        if not ready:
            return 1
        rate = sum(worker.most / max(worker.seconds, 0.001) for worker in ready)
        return max(1, min(60, round(self.waiting / rate)))

    def submit(self, call: Call) -> None:
        """Let a request wait for the next predictor that has room."""
        body = call.exchange.body
        # Small ones are bytes.
        if isinstance(body, memoryview) and self._goes_to_reader(call):
            self.reading[call.number] = call
        else:
            self.queue.append(call)
            self.dispatch_soon()
        self.waiting_bytes += len(body)
        call.exchange.on_gone = lambda: self._gone(call)
        self.last_used = call.accepted
        self._keep_ticking()

    def _keep_ticking(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._stops.begin(time.monotonic())
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _goes_to_reader(self, call: Call) -> bool:
        """Whether every predictor is at something else (a free one is quicker than two processes), and it is asked."""
        if self._reader is None or not self.workers:
            return False
        busy = all(worker.takes_numbers and worker.calls for worker in self.workers.values())
        return busy and self._reader.read(call, self._read)

    def _read(self, call: Call) -> None:
        # It may have been answered meanwhile: too late, or its client gone.
        if self.reading.pop(call.number, None) is not None:
            self.queue.append(call)
            self.dispatch_soon()

    def dispatch_soon(self) -> None:
        """Hand out what waits, at the end of this turn of the loop: what arrives together travels together."""
        if not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def add(self, worker: Worker) -> None:
        """A predictor has loaded its model."""
        self.workers[worker.number] = worker
        self.dispatch_soon()

    def retire(self, worker: Worker) -> None:
        """A predictor's successor is there: it gets nothing more, and ends when it has answered what it has."""
        worker.retiring = True
        worker.stop()

    def lose(self, worker: Worker, refusal: str) -> None:
        """A predictor has died: what it was at fails at once, what merely waited for it goes to another."""
        self.workers.pop(worker.number, None)
        self._late.discard(worker.number)
        calls = sorted(worker.calls.values(), key=lambda call: call.sequence, reverse=True)
        worker.calls.clear()
        for call in calls:
            if call.done:
                continue
            if worker.was_at(call) or call.resent:
                call.refuse(500, refusal)
            else:
                call.resent = True
                call.worker = None
                self.queue.appendleft(call)
                self.waiting_bytes += len(call.exchange.body)
                # It was taken out of `workers` before, perhaps, and nobody looked at deadlines since.
                self._keep_ticking()
        self.dispatch_soon()

    def abandon(self, status: int, message: str) -> None:
        """Nobody will answer what waits, nor what predictors are at."""
        self.refuse_all(status, message)
        for worker in self.workers.values():
            for call in list(worker.calls.values()):
                call.refuse(status, message)

    def refuse_all(self, status: int, message: str) -> None:
        """Nobody will answer what waits."""
        self.queue.extend(self.reading.values())
        self.reading.clear()
        while self.queue:
            call = self._pop()
            call.refuse(status, message, (("retry-after", str(self.retry_after_s)),))

    def _pop(self) -> Call:
        call = self.queue.popleft()
        self.waiting_bytes -= len(call.exchange.body)
        return call

    def _dispatch(self) -> None:
        self._dispatching = False
        if not self.queue or not self.workers:
            return
        rooms = {worker.number: self._room(worker) for worker in self.workers.values()}
        handed: dict[int, list[Call]] = {}
        now = time.monotonic()
        while self.queue:
            if self.queue[0].done:
                self._pop()
                continue
            worker = self._least_loaded(rooms, handed)
            if worker is None:
                break
            call = self._pop()
            rooms[worker.number] -= 1
            handed.setdefault(worker.number, []).append(call)
        for number, calls in handed.items():
            self.workers[number].send(calls, now)

    def _room(self, worker: Worker) -> int:
        if worker.retiring:
            return 0
        ahead = sum(len(call.exchange.body) for call in worker.calls.values())
        if ahead > _BYTES_AHEAD:
            return 0
        return worker.window - worker.at_work

    def _least_loaded(self, rooms: dict[int, int], handed: dict[int, list[Call]]) -> Worker | None:
        with_room = [worker for worker in self.workers.values() if rooms[worker.number] > 0]
        if not with_room:
            return None
        if len(with_room) == 1:
            return with_room[0]
        return min(with_room, key=lambda w: len(w.calls) + len(handed.get(w.number, ())))

    def _gone(self, call: Call) -> None:
        """The client has gone."""
        call.cancelled = True
        self._leave(call)
        call.finish()

    def _leave(self, call: Call) -> None:
        if call.worker is None:
            if self.reading.pop(call.number, None) is not None:
                self.waiting_bytes -= len(call.exchange.body)
            elif call in self.queue:
                self.queue.remove(call)
                self.waiting_bytes -= len(call.exchange.body)
            return
        worker = self.workers.get(call.worker)
        if worker is not None and call.number in worker.calls:
            # It stays the worker's until that has said so: its place is taken until then.
            worker.cancel(call)

    def _tick(self) -> None:
        now = time.monotonic()
        if stopped := self._stops.look(now):
            self._forgive(stopped, now)
        for worker in list(self.workers.values()):
            for call in list(worker.calls.values()):
                if now > call.deadline and not call.done:
                    self._expire(call)
            self._look_after(worker, now)
        for call in [
            call for call in (*self.queue, *self.reading.values()) if now > call.deadline and not call.done
        ]:
            self._expire(call)
        at_work = self.waiting or any(worker.calls for worker in self.workers.values())
        if self._reader is not None:
            at_work = self._reader.look_after(now, self._went_on) or at_work
        if at_work:
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        else:
            self._ticking = False

    def _forgive(self, stopped: float, now: float) -> None:
        """Nobody could do anything: predictors begin anew to be late, and requests have as much more time."""
        self._went_on = now
        with_workers = [call for worker in self.workers.values() for call in worker.calls.values()]
        for call in (*with_workers, *self.queue, *self.reading.values()):
            call.deadline += stopped

    def _expire(self, call: Call) -> None:
        exchange: Exchange = call.exchange
        call.refuse(504, f"no answer within {call.deadline - call.accepted:g} s")
        exchange.on_gone = None
        self._leave(call)

    def _look_after(self, worker: Worker, now: float) -> None:
        busy = worker.board.busy_since
        since = max(busy, self._went_on)
        if not busy or now - since <= self._timeout:
            self._late.discard(worker.number)
        elif now - since > self._timeout + self._grace:
            self._on_hung(worker)
        elif worker.number not in self._late:
            self._late.add(worker.number)
            self._on_late(worker)
