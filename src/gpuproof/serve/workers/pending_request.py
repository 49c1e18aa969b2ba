"""One prediction request on its way from the client through queue and worker and back."""

from __future__ import annotations

from typing import Callable

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.interface import DecodedArray
from gpuproof.serve.ipc.messages import Headers, Phases

_NO_PHASES = Phases()


class PendingRequest:
    """A prediction request. Times are in seconds on `time.monotonic`'s clock.

    Args:
        accepted: when it was received completely.
        deadline: when the response is due.
        on_done: called once with the request when it is over, however it ended.
    """

    __slots__ = (
        "accepted",
        "cancelled",
        "deadline",
        "decoded",
        "done",
        "exchange",
        "fields",
        "number",
        "on_done",
        "phases",
        "requeued",
        "sequence",
        "streaming",
        "worker",
    )

    def __init__(
        self,
        number: int,
        exchange: Exchange,
        fields: bytes,
        accepted: float,
        deadline: float,
        on_done: Callable[[PendingRequest], None],
    ) -> None:
        self.number = number
        self.exchange = exchange
        self.fields = fields
        self.accepted = accepted
        self.deadline = deadline
        self.on_done = on_done
        self.phases = _NO_PHASES
        self.decoded: DecodedArray | None = None
        """The array that the decoder has read from its body."""
        self.worker: int | None = None
        """Number of the worker that it was sent to."""
        self.sequence = 0
        """Sequence number on its worker, from 1."""
        self.requeued = False
        """Whether it was sent back to the queue because its worker died."""
        self.streaming = False
        self.cancelled = False
        self.done = False

    def respond(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        """Send the response to the client. Only the first response counts; later ones are ignored."""
        if not self.done:
            self.exchange.respond(status, headers, body)
            self.finish()

    def reject(self, status: int, message: str, headers: Headers = ()) -> None:
        """Send an error to the client, or abort a streamed response."""
        if self.done:
            return
        if self.streaming:
            self.exchange.abort()
        else:
            self.exchange.send_error(status, message, headers)
        self.finish()

    def finish(self) -> None:
        """Mark the request as over and report it."""
        if not self.done:
            self.done = True
            self.exchange.on_disconnect = None
            self.exchange.on_pieces_read = None
            self.on_done(self)
