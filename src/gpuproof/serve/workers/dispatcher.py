"""Queues the requests for one model and sends them to its workers: limits, deadlines, least loaded worker first."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Callable

from gpuproof.serve.workers.decoder_client import DecoderClient
from gpuproof.serve.workers.pending_request import PendingRequest
from gpuproof.serve.workers.worker_client import WorkerClient
from gpuproof.util.suspend_detector import SuspendDetector

_TICK_S = 0.05
_BYTES_AHEAD = 32 * 1024 * 1024
"""Bodies beyond this wait in the queue rather than in the socket of a busy worker."""


class Dispatcher:
    """The queue and the workers of one model.

    Args:
        max_queue: how many requests may wait.
        max_bytes: how many bytes of bodies may wait.
        timeout_s: how long one call of a user's function may take.
        grace_s: how long a call may exceed that before its worker is killed.
        on_slow: called with a worker whose call exceeds the timeout, so that it can interrupt the call.
        on_hung: called with a worker that must be killed.
        decoder: decodes large bodies while the workers are busy.
    """

    def __init__(
        self,
        max_queue: int,
        max_bytes: int,
        timeout_s: float,
        grace_s: float,
        on_slow: Callable[[WorkerClient], None],
        on_hung: Callable[[WorkerClient], None],
        decoder: DecoderClient | None = None,
    ) -> None:
        self.workers: dict[int, WorkerClient] = {}
        self.queue: deque[PendingRequest] = deque()
        self.decoding: dict[int, PendingRequest] = {}
        """Requests whose bodies are being decoded; they are queued afterwards."""
        self.waiting_bytes = 0
        self.last_used = time.monotonic()
        self._max_queue = max_queue
        self._max_bytes = max_bytes
        self._timeout = timeout_s
        self._grace = grace_s
        self._on_slow = on_slow
        self._on_hung = on_hung
        self._decoder = decoder
        self._dispatching = False
        self._ticking = False
        self._suspensions = SuspendDetector(_TICK_S)
        self._resumed_at = 0.0
        """When the server last resumed after it had been suspended."""
        self._slow: set[int] = set()

    @property
    def in_flight(self) -> int:
        """Number of requests that were sent to workers."""
        return sum(len(worker.requests) for worker in self.workers.values())

    @property
    def waiting(self) -> int:
        """Number of requests that were not sent to workers yet."""
        return len(self.queue) + len(self.decoding)

    @property
    def idle(self) -> bool:
        """Whether no client waits for a response."""
        return not self.waiting and all(
            request.done for worker in self.workers.values() for request in worker.requests.values()
        )

    @property
    def full(self) -> bool:
        """Whether further requests must be rejected."""
        return len(self.queue) + len(self.decoding) >= self._max_queue or self.waiting_bytes > self._max_bytes

    @property
    def retry_after_s(self) -> int:
        """When a rejected client should try again: the expected duration of the queue, in whole seconds."""
        ready = [worker for worker in self.workers.values() if worker.ready]
        if not ready:
            return 1
        rate = sum(worker.batch_size / max(worker.mean_batch_s, 0.001) for worker in ready)
        return max(1, min(60, round(self.waiting / rate)))

    def submit(self, request: PendingRequest) -> None:
        """Queue a request for the next worker that has capacity."""
        body = request.exchange.body
        # Only large bodies are memoryviews.
        if isinstance(body, memoryview) and self._send_to_decoder(request):
            self.decoding[request.number] = request
        else:
            self.queue.append(request)
            self.dispatch_soon()
        self.waiting_bytes += len(body)
        request.exchange.on_disconnect = lambda: self._on_client_disconnect(request)
        self.last_used = request.accepted
        self._start_ticking()

    def dispatch_soon(self) -> None:
        """Dispatch the queue at the end of this iteration of the event loop, so that requests travel together."""
        if not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def add(self, worker: WorkerClient) -> None:
        """Add a worker that has loaded its model."""
        self.workers[worker.number] = worker
        self.dispatch_soon()

    def retire(self, worker: WorkerClient) -> None:
        """Send no more requests to a worker, and stop it when it has answered those it has."""
        worker.retiring = True
        worker.stop()

    def remove(self, worker: WorkerClient, message: str) -> None:
        """Remove a worker that has died: fail the requests that it had started, and requeue the others."""
        self.workers.pop(worker.number, None)
        self._slow.discard(worker.number)
        requests = sorted(worker.requests.values(), key=lambda request: request.sequence, reverse=True)
        worker.requests.clear()
        for request in requests:
            if request.done:
                continue
            if worker.has_started(request) or request.requeued:
                request.reject(500, message)
            else:
                request.requeued = True
                request.worker = None
                self.queue.appendleft(request)
                self.waiting_bytes += len(request.exchange.body)
                # The worker may have left `workers` before, and the ticks that check deadlines have stopped.
                self._start_ticking()
        self.dispatch_soon()

    def reject_all(self, status: int, message: str) -> None:
        """Reject all requests, including those that were sent to workers."""
        self.reject_queued(status, message)
        for worker in self.workers.values():
            for request in list(worker.requests.values()):
                request.reject(status, message)

    def reject_queued(self, status: int, message: str) -> None:
        """Reject the requests that were not sent to workers yet."""
        self.queue.extend(self.decoding.values())
        self.decoding.clear()
        while self.queue:
            request = self._pop()
            request.reject(status, message, (("retry-after", str(self.retry_after_s)),))

    def _pop(self) -> PendingRequest:
        request = self.queue.popleft()
        self.waiting_bytes -= len(request.exchange.body)
        return request

    def _send_to_decoder(self, request: PendingRequest) -> bool:
        """Send a body to the decoder if every worker is busy; an idle worker is faster than two processes."""
        if self._decoder is None or not self.workers:
            return False
        busy = all(worker.accepts_decoded and worker.requests for worker in self.workers.values())
        return busy and self._decoder.decode(request, self._on_decoded)

    def _on_decoded(self, request: PendingRequest) -> None:
        # It may be over already: timed out, or its client disconnected.
        if self.decoding.pop(request.number, None) is not None:
            self.queue.append(request)
            self.dispatch_soon()

    def _dispatch(self) -> None:
        self._dispatching = False
        if not self.queue or not self.workers:
            return
        capacity = {worker.number: self._capacity(worker) for worker in self.workers.values()}
        assigned: dict[int, list[PendingRequest]] = {}
        while self.queue:
            if self.queue[0].done:
                self._pop()
                continue
            worker = self._least_loaded(capacity, assigned)
            if worker is None:
                break
            request = self._pop()
            capacity[worker.number] -= 1
            assigned.setdefault(worker.number, []).append(request)
        for number, requests in assigned.items():
            self.workers[number].send(requests)

    def _capacity(self, worker: WorkerClient) -> int:
        if worker.retiring:
            return 0
        ahead = sum(len(request.exchange.body) for request in worker.requests.values())
        if ahead > _BYTES_AHEAD:
            return 0
        return worker.window - worker.load

    def _least_loaded(
        self, capacity: dict[int, int], assigned: dict[int, list[PendingRequest]]
    ) -> WorkerClient | None:
        available = [worker for worker in self.workers.values() if capacity[worker.number] > 0]
        if not available:
            return None
        if len(available) == 1:
            return available[0]
        return min(available, key=lambda w: len(w.requests) + len(assigned.get(w.number, ())))

    def _on_client_disconnect(self, request: PendingRequest) -> None:
        request.cancelled = True
        self._withdraw(request)
        request.finish()

    def _withdraw(self, request: PendingRequest) -> None:
        """Take a request out of the queue, or cancel it on its worker."""
        if request.worker is None:
            if self.decoding.pop(request.number, None) is not None:
                self.waiting_bytes -= len(request.exchange.body)
            elif request in self.queue:
                self.queue.remove(request)
                self.waiting_bytes -= len(request.exchange.body)
            return
        worker = self.workers.get(request.worker)
        if worker is not None and request.number in worker.requests:
            # It counts against the worker's capacity until the worker confirms the cancellation.
            worker.cancel(request)

    def _start_ticking(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._suspensions.start(time.monotonic())
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if suspended := self._suspensions.check(now):
            self._extend_deadlines(suspended, now)
        for worker in list(self.workers.values()):
            for request in list(worker.requests.values()):
                if now > request.deadline and not request.done:
                    self._expire(request)
            self._check_worker(worker, now)
        for request in [
            request
            for request in (*self.queue, *self.decoding.values())
            if now > request.deadline and not request.done
        ]:
            self._expire(request)
        busy = self.waiting or any(worker.requests for worker in self.workers.values())
        if self._decoder is not None:
            busy = self._decoder.check(now, self._resumed_at) or busy
        if busy:
            asyncio.get_running_loop().call_later(_TICK_S, self._tick)
        else:
            self._ticking = False

    def _extend_deadlines(self, suspended: float, now: float) -> None:
        """Extend all deadlines after the server was suspended; workers' timeouts restart."""
        self._resumed_at = now
        at_workers = [request for worker in self.workers.values() for request in worker.requests.values()]
        for request in (*at_workers, *self.queue, *self.decoding.values()):
            request.deadline += suspended

    def _expire(self, request: PendingRequest) -> None:
        request.reject(504, f"no response within {request.deadline - request.accepted:g} s")
        request.exchange.on_disconnect = None
        self._withdraw(request)

    def _check_worker(self, worker: WorkerClient, now: float) -> None:
        busy = worker.status.busy_since
        since = max(busy, self._resumed_at)
        if not busy or now - since <= self._timeout:
            self._slow.discard(worker.number)
        elif now - since > self._timeout + self._grace:
            self._on_hung(worker)
        elif worker.number not in self._slow:
            self._slow.add(worker.number)
            self._on_slow(worker)
