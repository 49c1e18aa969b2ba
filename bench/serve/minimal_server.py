"""A minimal server: it does only what every server has to do.

    python -P bench/serve/minimal_server.py FOLDER PORT PROCESSES

One connection at a time, blocking, in the process that predicts: no hop to a predictor, no time-outs, no health while it
computes, no bad requests. It reads and writes JSON as GPUproof does; with 2 for PROCESSES, another process reads with it, from
the other end of the body while it is still being received, and no list is checked for equal lengths.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import mmap
import os
import re
import socket
import sys
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from gpuproof.serve.codecs import json_fast, registry

_ROOM = 8 * 1024 * 1024
"""Bytes that a body may have."""
_PIECES = 5
_READ, _TAKEN = 2, 1
_BETWEEN = re.compile(rb"\d, \d")
_DEPTH = 4
"""Of the lists; pieces are cut between numbers of the innermost."""


class Reading:
    """A body in shared memory, which two processes parse piece by piece from both ends until they meet."""

    def __init__(self) -> None:
        self.body = mmap.mmap(-1, _ROOM)
        self._numbers = np.frombuffer(mmap.mmap(-1, _ROOM), np.float32)
        """What the helper has read, in order: it begins at the front."""
        self._state = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.uint8)
        self._sizes = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.int64)
        self._unheard = 0
        """Pieces that were assigned to the helper and have not been reported back."""
        self._size = 0
        self._ends: list[int] = []
        self._link, theirs = socket.socketpair()
        # Before torch is imported: a fork would make its pages slow to write.
        if os.fork() == 0:
            self._link.close()
            self._help(theirs)
            os._exit(0)
        theirs.close()

    def begin(self, size: int) -> None:
        """Prepare for a body of `size` bytes."""
        while self._unheard:
            self._unheard -= len(self._link.recv(self._unheard))
        self._state[:] = 0
        self._size = size
        self._ends = []

    def came(self, count: int) -> None:
        """Record the number of bytes received, so that the helper can parse complete lists."""
        while len(self._ends) < _PIECES - 1:
            found = _BETWEEN.search(self.body, self._size * (len(self._ends) + 1) // _PIECES, count)
            if found is None:
                return
            self._ends.append(found.start() + 1)
            piece = len(self._ends) - 1
            self._link.send(np.array([piece, *self._bounds(piece)], np.int64).tobytes())
            self._unheard += 1

    def numbers(self) -> np.ndarray[Any, Any]:
        """Return all numbers of the body as a flat array."""
        mine: list[Any] = []
        for piece in reversed(range(_PIECES)):
            if self._state[piece]:
                break
            self._state[piece] = _TAKEN
            mine.insert(0, self._read(*self._bounds(piece)))
        theirs = _PIECES - len(mine)
        while (self._state[:theirs] != _READ).any():
            self._unheard -= len(self._link.recv(1))
        return np.concatenate([self._numbers[: self._sizes[:theirs].sum()], *mine])

    def _bounds(self, piece: int) -> tuple[int, int]:
        begin = self._ends[piece - 1] + len(", ") if piece else _DEPTH
        return begin, self._ends[piece] if piece < len(self._ends) else self._size - _DEPTH

    def _read(self, begin: int, end: int) -> np.ndarray[Any, Any]:
        lists: list[Any] = orjson.loads(b"[" * _DEPTH + self.body[begin:end] + b"]" * _DEPTH)
        for _ in range(_DEPTH - 1):
            lists = list(chain.from_iterable(lists))
        return np.array(lists, np.float32)

    def _help(self, link: socket.socket) -> None:
        at = 0
        while message := link.recv(3 * 8):
            piece, begin, end = map(int, np.frombuffer(message, np.int64))
            if piece == 0:
                at = 0
            if not self._state[piece]:
                self._state[piece] = _TAKEN
                read = self._read(begin, end)
                self._numbers[at : at + read.size] = read
                at += read.size
                self._sizes[piece] = read.size
                self._state[piece] = _READ
            link.send(b".")


def main() -> int:
    """Answer requests until the process is terminated."""
    folder, port, processes = sys.argv[1:]
    reading = Reading() if processes == "2" else None
    body = reading.body if reading else mmap.mmap(-1, _ROOM)
    room = memoryview(body)
    # The pages of a server that has been at work are there already.
    room[:] = bytes(_ROOM)
    import torch

    sys.path.insert(0, str(Path(folder) / "code"))
    inference: Any = import_module("inference")
    shape = import_module("models").SHAPES[json.loads((Path(folder) / "bench.json").read_text())["model"]]
    model = inference.model_fn(folder)
    listening = socket.create_server(("127.0.0.1", int(port)))
    while True:
        client, _ = listening.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A client that has had enough may go in the middle of its request.
        with client, suppress(ConnectionError):
            while (size := _receive(client, room, reading)) is not None:
                if not size:
                    _answer(client, b"")
                    continue
                numbers = reading.numbers() if reading else json_fast.read(room[:size])
                prediction = inference.predict_fn(torch.from_numpy(numbers.reshape(1, *shape)), model)
                _answer(client, registry.write_body(prediction.numpy(), "application/json"))


def _receive(client: socket.socket, room: memoryview, reading: Reading | None) -> int | None:
    """Receive a request; returns the length of its body, or `None` if the client has disconnected."""
    came = client.recv(16 * 1024)
    if not came:
        return None
    head, _, first = came.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    size = int(length[1]) if length else 0
    count = len(first)
    room[:count] = first
    if reading and size:
        reading.begin(size)
    while count < size:
        received = client.recv_into(room[count:size])
        if not received:
            return None
        count += received
        if reading:
            reading.came(count)
    return size


def _answer(client: socket.socket, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    client.sendall(head + body)


if __name__ == "__main__":
    sys.exit(main())
