"""The decoder process: decodes large JSON bodies of numbers while the workers compute.

It runs no user code. It parses a body in shared memory and writes the array there, too. For a body that is not an array
of numbers it reports nothing; the worker then parses the body and reports the error.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from typing import Any

from gpuproof.serve.codecs import json_fast
from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader
from gpuproof.serve.ipc.messages import pack_sizes, read_sizes
from gpuproof.serve.ipc.shared_memory import OpenedMemory

_RECEIVE_BUFFER = 64 * 1024
_NICE = 10


def main(words: list[str]) -> int:
    """Run `decoder JSON`. The JSON holds the descriptors `channel` and `memory`. Exits when the frontend closes the socket."""
    _lower_priority()
    config: dict[str, Any] = json.loads(words[0])
    channel = socket.socket(fileno=config["channel"])
    memory = OpenedMemory(config["memory"], writable=True)
    reader = FrameReader()
    buffer = memoryview(bytearray(_RECEIVE_BUFFER))
    try:
        # Workers may have orjson from their model's requirements, but the decoder does not use those.
        if not json_fast.import_early():
            channel.sendall(frames.pack(frames.LOAD_FAILED, 0))
            return 0
        channel.sendall(frames.pack(frames.LOADED, 0))
        while count := channel.recv_into(buffer):
            for frame in reader.received(buffer, count):
                channel.sendall(
                    frames.pack(frames.DECODED, frame.id, _decode(memory, *read_sizes(frame.body)))
                )
    except (BrokenPipeError, ConnectionResetError):
        # The frontend has closed the socket.
        pass
    return 0


def _lower_priority() -> None:
    """Use only the CPU time that workers leave, rather than preempt a worker during its prediction."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):
        os.nice(_NICE)


def _decode(memory: OpenedMemory, offset: int, length: int, target: int, capacity: int) -> bytes:
    """Decode a body and write its array. Returns the packed shape of the array, or nothing."""
    array = json_fast.read(memory.part(offset, length))
    if array is None or not 0 < array.nbytes <= capacity:
        return b""
    memory.part(target, array.nbytes)[:] = memoryview(array).cast("B")
    return pack_sizes(array.shape)
