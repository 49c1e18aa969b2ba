"""One inference on its way: from the client through queue and predictor and back."""

from __future__ import annotations

import json
from typing import Callable

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.ipc.messages import Headers, Numbers, Phases

JSON: Headers = (("content-type", "application/json"),)
_NONE = Phases()


class Call:
    """One request for a prediction. Times in seconds on `time.monotonic`'s clock.

    Args:
        number: its id in frames.
        exchange: the client's end.
        fields: its fields in frames.
        accepted: when it had been received whole.
        deadline: when it must have been answered.
        on_done: called once with the call when it is over, however it ended.
    """

    __slots__ = (
        "accepted",
        "cancelled",
        "deadline",
        "done",
        "exchange",
        "fields",
        "number",
        "numbers",
        "on_done",
        "phases",
        "resent",
        "sent",
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
        on_done: Callable[[Call], None],
    ) -> None:
        self.number = number
        self.exchange = exchange
        self.fields = fields
        self.accepted = accepted
        self.deadline = deadline
        self.on_done = on_done
        self.phases = _NONE
        self.numbers: Numbers | None = None
        """What a reader has read of its body."""
        self.worker: int | None = None
        self.sequence = 0
        """The how-manieth request of its predictor it is."""
        self.sent = 0.0
        self.resent = False
        self.streaming = False
        self.cancelled = False
        self.done = False

    def answer(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        """Answer the client, once; what comes later is dropped."""
        if not self.done:
            self.exchange.answer(status, headers, body)
            self.finish()

    def refuse(self, status: int, message: str, headers: Headers = ()) -> None:
        """Answer the client with an error, or cut a streamed answer short."""
        if self.done:
            return
        if self.streaming:
            self.exchange.abort()
            self.finish()
        else:
            self.answer(status, (*JSON, *headers), error_body(message))

    def finish(self) -> None:
        """It is over."""
        if not self.done:
            self.done = True
            self.exchange.on_gone = None
            self.exchange.on_read = None
            self.on_done(self)


def error_body(message: str) -> bytes:
    """An error as clients see it: `{"error": "…"}`."""
    return json.dumps({"error": message}).encode()
