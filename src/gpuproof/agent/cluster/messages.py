"""Messages between agents: JSON objects of limited size, one on each line."""

from __future__ import annotations

import enum
import json
from typing import Any

Message = dict[str, Any]

MESSAGE_BYTES = 64 * 1024
"""Bytes of the longest message."""
GREETING_BYTES = 1024
"""Bytes of the longest message of a connection that is not authenticated yet."""


class Kind(str, enum.Enum):
    """What a message says; the value of its key `kind`."""

    READY = "ready"
    """From a host: its script can be started."""
    HEARTBEAT = "heartbeat"
    """Both ways. From a host, `idle` has the seconds since its script made progress, or `null` once it has ended."""
    FAILED = "failed"
    """From a host: `failure`: it failed, or it was asked to stop."""
    GATHERED = "gathered"
    """From a host: it has sent all failures that it knows of."""
    STACKS_PRINTED = "stacks-printed"
    """From a host: the stack traces of its processes are in its log."""
    ENDED = "ended"
    """From a host: its script has ended."""
    START = "start"
    """To all hosts: start the script."""
    GATHER = "gather"
    """To all hosts: something went wrong somewhere; send the failures that are known."""
    PRINT_STACKS = "print-stacks"
    """To all hosts: no host makes progress; print the stack traces of all processes."""
    STOP = "stop"
    """To all hosts: end the script because of `failure`."""
    FINISH = "finish"
    """To all hosts: the scripts of all hosts have ended."""


class ProtocolError(Exception):
    """The other side sends something other than messages."""


def encode(message: Message) -> bytes:
    """The message as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def message(kind: Kind, **values: Any) -> Message:
    """A message of a kind."""
    return {"kind": kind.value, **values}


class LineBuffer:
    """Splits received bytes into messages.

    Args:
        limit: bytes of the longest message; may be raised later.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._rest = b""

    def feed(self, received: bytes) -> list[Message]:
        """Return the messages that the new bytes complete.

        Raises:
            ProtocolError: a line is too long, or not a JSON object.
        """
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > self.limit or any(len(line) > self.limit for line in lines):
            raise ProtocolError(f"a message of more than {self.limit} bytes")
        return [_decode(line) for line in lines]


def _decode(line: bytes) -> Message:
    try:
        decoded = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not JSON") from error
    if not isinstance(decoded, dict):
        raise ProtocolError("not a JSON object")
    return decoded
