"""Forwards connections from the hosts to the machine's network, and is an HTTP proxy for them.

A socket belongs to the network in which it was created: the listeners belong to the hosts, all connections to the machine.
Source of the proxy's protocol: RFC 9110, 9.3.6 (CONNECT), and RFC 9112, 3.2.2 (absolute form).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

_MAX_CONNECTIONS = 2048
_HEAD_LIMIT = 65536
_HEAD_S = 60.0
_CONNECT_S = 60.0
_CHUNK = 65536
_HOP_BY_HOP = (b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive")


def forward(listeners: Sequence[socket.socket], targets: Sequence[str]) -> None:
    """Serve until standard input ends; then this process ends at once, with all connections.

    Args:
        listeners: for one host after the other, one for each target.
        targets: where connections to a listener go, at the same port; empty for the HTTP proxy.
    """
    asyncio.run(_serve(listeners, targets))


async def _serve(listeners: Sequence[socket.socket], targets: Sequence[str]) -> None:
    asyncio.get_running_loop().add_reader(0, _end_with_input)
    free = asyncio.Semaphore(_MAX_CONNECTIONS)
    for number, listener in enumerate(listeners):
        target = targets[number % len(targets)]
        port = listener.getsockname()[1]
        connections = _Connections(target, port, free)
        await asyncio.start_server(connections.handle, sock=listener, limit=_HEAD_LIMIT)
    await asyncio.Event().wait()


def _end_with_input() -> None:
    if not os.read(0, 4096):
        os._exit(0)


class _Connections:
    """The connections to one listener."""

    def __init__(self, target: str, port: int, free: asyncio.Semaphore) -> None:
        self._target = target
        self._port = port
        self._free = free

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._free:
            with contextlib.suppress(OSError, EOFError, asyncio.TimeoutError, ValueError):
                if self._target:
                    await _join(reader, writer, *await _connect(self._target, self._port))
                else:
                    await _proxy(reader, writer)
            writer.close()


async def _proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one request of a client; a connection of plain HTTP is closed after it."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
    except asyncio.LimitOverrunError:
        await _refuse(writer, "431 Request Header Fields Too Large", "The request's head is too large.")
        return
    line, *fields = head[:-4].split(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3:
        await _refuse(writer, "400 Bad Request", "This is no HTTP request.")
        return
    method, target, version = words
    parts = _parse_target(method, target)
    if parts is None or parts.hostname is None:
        await _refuse(writer, "400 Bad Request", "This is a proxy: the request must have an absolute URL.")
        return
    host, port = parts.hostname, parts.port or 80
    try:
        far_reader, far_writer = await _connect(host, port)
    except (OSError, asyncio.TimeoutError) as error:
        await _refuse(writer, "502 Bad Gateway", f"{host}:{port} cannot be reached: {error}")
        return
    if method == "CONNECT":
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    else:
        path = parts.path or "/"
        if parts.query:
            path += f"?{parts.query}"
        kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in _HOP_BY_HOP]
        # One request a connection: the next might be for another server.
        first = f"{method} {path} {version}".encode("latin-1")
        far_writer.write(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]))
    await _join(reader, writer, far_reader, far_writer)


def _parse_target(method: str, target: str) -> SplitResult | None:
    """The server that a request names; None if it names none."""
    try:
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        valid = parts.port != 0 and (method == "CONNECT" or parts.scheme == "http")
    except ValueError:
        return None
    return parts if valid else None


async def _refuse(writer: asyncio.StreamWriter, status: str, why: str) -> None:
    body = f"gpuproof: {why}\n".encode(errors="replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.wait_for(asyncio.open_connection(host, port), _CONNECT_S)


async def _join(
    near_reader: asyncio.StreamReader,
    near_writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Copy in both directions until both have ended."""
    try:
        await asyncio.gather(_copy(near_reader, far_writer), _copy(far_reader, near_writer))
    finally:
        far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(_CHUNK):
        writer.write(part)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
