"""A reader: a process that reads the numbers of large JSON bodies while the predictors compute.

No user's code runs here. It reads a body where it lies in the shared memory, and writes the array beside it; of a body
that is no array of numbers it says nothing, and the predictor tells what is wrong with it.
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

_RECEIVE = 64 * 1024
_NICE = 10


def main(words: list[str]) -> int:
    """`reader JSON`: the descriptors of socket and memory. Ends when the front closes the socket."""
    _stand_back()
    told: dict[str, Any] = json.loads(words[0])
    channel = socket.socket(fileno=told["channel"])
    memory = OpenedMemory(told["memory"], to_write=True)
    arriving = FrameReader()
    usual = memoryview(bytearray(_RECEIVE))
    try:
        # The predictors' Python may have it from their model's own requirements.
        if not json_fast.import_ahead():
            channel.sendall(frames.pack(frames.FAILED, 0))
            return 0
        channel.sendall(frames.pack(frames.LOADED, 0))
        while count := channel.recv_into(usual):
            for frame in arriving.received(usual, count):
                channel.sendall(frames.pack(frames.NUMBERS, frame.id, _read(memory, *read_sizes(frame.body))))
    except (BrokenPipeError, ConnectionResetError):
        # The front is gone.
        pass
    return 0


def _stand_back() -> None:
    """Work with what predictors leave: woken, it would take a predictor's core away in the middle of its prediction."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    with suppress(OSError):
        os.nice(_NICE)


def _read(memory: OpenedMemory, offset: int, length: int, to: int, room: int) -> bytes:
    """Read one body and write its array; gives the array's shape, or nothing."""
    array = json_fast.read(memory.part(offset, length))
    if array is None or not 0 < array.nbytes <= room:
        return b""
    memory.part(to, array.nbytes)[:] = memoryview(array).cast("B")
    return pack_sizes(array.shape)
