"""The keeper: a small process between the front and its predictors that starts them, reports their ends, and outlives
the front by a moment to end whatever is left.

The front forks it before anything else. It adopts what predictors leave behind, so that a predictor's own children end
with it; when the front is no more, however that came about, their socket closes and the keeper ends everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping
from typing import Any

from gpuproof.util.process_tree import adopt_orphans, descendants, end_descendants

_MARK = "GPUPROOF_PREDICTOR"


class Keeper:
    """The front's end of it.

    Args:
        pid: its process id.
        channel: the socket to it; becomes readable when `messages` has something to give.
    """

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self._buffer = b""

    @classmethod
    def start(cls) -> Keeper:
        """Fork it; before any thread is started."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                _Kept(theirs).run()
            finally:
                os._exit(0)
        theirs.close()
        return cls(pid, ours)

    def spawn(
        self, number: int, command: list[str], environment: dict[str, str], descriptors: Mapping[str, int]
    ) -> None:
        """Start a predictor or a reader; `{"started": NUMBER, "pid": PID}` or `{"ended": NUMBER, …}` follows.

        Args:
            number: what to call it.
            command: program and arguments; the last is JSON, to which the names and numbers of descriptors are added.
            environment: the whole environment.
            descriptors: handed over by name, open in the process.
        """
        message = {
            "spawn": number,
            "command": command,
            "environment": environment,
            "names": list(descriptors),
        }
        self._send(message, tuple(descriptors.values()))

    def signal(self, number: int, signal_number: int) -> None:
        """Send a signal to a predictor, if it still runs."""
        self._send({"signal": number, "with": int(signal_number)})

    def messages(self) -> list[dict[str, Any]] | None:
        """What has come; `None` when the keeper is no more. Does not wait where the socket does not."""
        try:
            received = self.channel.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not received:
            return None
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """End everything below it, and wait until that is done."""
        self.channel.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return

    def _send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        if self.channel.fileno() < 0:
            # Closed: everything below it has ended.
            return
        packed = json.dumps(message).encode() + b"\n"
        blocking = self.channel.gettimeout()
        self.channel.settimeout(None)
        try:
            if descriptors:
                sent = socket.send_fds(self.channel, [packed], descriptors)
                packed = packed[sent:]
            self.channel.sendall(packed)
        except OSError:
            # It is gone; `messages` says so to whom it concerns.
            return
        finally:
            self.channel.settimeout(blocking)


class _Kept:
    """The keeper's own side."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = b""
        self._descriptors: list[int] = []
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # Not ignored: predictors would inherit that.
            signal.signal(number, _wake)
        adopt_orphans()
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        try:
            while True:
                ready, _, _ = select.select([self._channel, wake], [], [])
                if wake in ready:
                    os.read(wake, 4096)
                    self._collect()
                if self._channel in ready and not self._read():
                    return
        finally:
            end_descendants()

    def _read(self) -> bool:
        try:
            received, descriptors, _, _ = socket.recv_fds(self._channel, 1 << 20, 16)
        except OSError:
            return False
        if not received:
            return False
        self._descriptors += descriptors
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return True

    def _obey(self, message: dict[str, Any]) -> None:
        if "spawn" in message:
            self._spawn(message)
        else:
            process = self._running.get(message["signal"])
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, message["with"])

    def _spawn(self, message: dict[str, Any]) -> None:
        number: int = message["spawn"]
        names: list[str] = message["names"]
        handed, self._descriptors = self._descriptors[: len(names)], self._descriptors[len(names) :]
        told = {**json.loads(message["command"][-1]), **dict(zip(names, handed))}
        command = [*message["command"][:-1], json.dumps(told)]
        try:
            self._running[number] = subprocess.Popen(
                command,
                env={**message["environment"], _MARK: str(number)},
                stdin=subprocess.DEVNULL,
                pass_fds=handed,
                start_new_session=True,
            )
        except OSError as error:
            self._tell({"ended": number, "code": 127, "why": str(error)})
            return
        finally:
            for descriptor in handed:
                os.close(descriptor)
        self._tell({"started": number, "pid": self._running[number].pid})

    def _collect(self) -> None:
        for number, process in list(self._running.items()):
            # Its children first: once it is collected, its group's number may be another's.
            code = _ended(process)
            if code is None:
                continue
            _end_marked(number)
            process.wait()
            del self._running[number]
            self._tell({"ended": number, "code": code, "pid": process.pid})
        self._collect_orphans()

    def _collect_orphans(self) -> None:
        known = {process.pid for process in self._running.values()}
        for pid in descendants(os.getpid()):
            if pid not in known:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # The front is gone; the next read says so.
            return


def _wake(_number: int, _frame: object) -> None:
    """A handler, so that the signal's number is written to the wake-up pipe."""


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code, or minus the signal's number, of a child that has ended; it stays a zombie."""
    if not hasattr(os, "waitid"):
        return process.poll()
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _end_marked(number: int) -> None:
    """Kill what a predictor left behind, wherever it went: each carries the predictor's number in its environment."""
    mark = f"{_MARK}={number}".encode()
    for pid in descendants(os.getpid()):
        # It may end meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            if mark in file.read().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
