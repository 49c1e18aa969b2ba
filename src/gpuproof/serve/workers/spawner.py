"""The spawner: the guard process between the frontend and its workers, which starts them and reports their exits.

The frontend forks it before anything else. The spawner adopts the processes that a worker leaves behind, so that they
end with the worker. When the frontend ends, for whatever reason, the spawner kills everything and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping

from gpuproof.util.process_guard import STOP_SIGNALS, Guard, GuardClient, Message, fork_guard, wake_up
from gpuproof.util.process_tree import descendants

_MARK = "GPUPROOF_PREDICTOR"


class Spawner(GuardClient):
    """The frontend's end of the spawner; its `channel` is readable when `messages` has something to return."""

    @classmethod
    def start(cls) -> Spawner:
        """Fork the spawner; call it before any thread is started."""
        return cls(*fork_guard(lambda channel: _SpawnerProcess(channel).run()))

    def spawn(
        self, number: int, command: list[str], environment: dict[str, str], descriptors: Mapping[str, int]
    ) -> None:
        """Start a worker or a decoder; `{"started": NUMBER, "pid": PID}` or `{"ended": NUMBER, …}` follows.

        Args:
            command: program and arguments; the last is JSON, to which the names and numbers of descriptors are added.
        """
        message = {
            "spawn": number,
            "command": command,
            "environment": environment,
            "names": list(descriptors),
        }
        self.send(message, tuple(descriptors.values()))

    def signal(self, number: int, signal_number: int) -> None:
        """Send a signal to a process, if it is running."""
        self.send({"signal": number, "with": int(signal_number)})

    def messages(self) -> list[Message] | None:
        """Return the messages that have arrived; `None` if the spawner has ended. Blocks only if the socket does."""
        try:
            received = self.channel.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self.lines.feed(received) if received else None


class _SpawnerProcess(Guard):
    """The spawner's own side."""

    def __init__(self, channel: socket.socket) -> None:
        super().__init__(channel)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        os.setpgid(0, 0)
        for number in STOP_SIGNALS:
            # Not ignored: workers would inherit that.
            signal.signal(number, wake_up)
        self.serve()

    def on_message(self, message: Message) -> None:
        if "spawn" in message:
            self._spawn(message)
        else:
            process = self._running.get(message["signal"])
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, message["with"])

    def on_child_exit(self) -> bool:
        for number, process in list(self._running.items()):
            # Its descendants first: once it is collected, its process group id may be reused.
            code = _exit_code(process)
            if code is None:
                continue
            _kill_marked(number)
            process.wait()
            del self._running[number]
            self.send({"ended": number, "code": code, "pid": process.pid})
        self._collect_orphans()
        return False

    def _spawn(self, message: Message) -> None:
        number: int = message["spawn"]
        names: list[str] = message["names"]
        descriptors = self.take_descriptors(len(names))
        settings = {**json.loads(message["command"][-1]), **dict(zip(names, descriptors))}
        command = [*message["command"][:-1], json.dumps(settings)]
        try:
            self._running[number] = subprocess.Popen(
                command,
                env={**message["environment"], _MARK: str(number)},
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except OSError as error:
            self.send({"ended": number, "code": 127, "why": str(error)})
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self.send({"started": number, "pid": self._running[number].pid})

    def _collect_orphans(self) -> None:
        known = {process.pid for process in self._running.values()}
        for pid in descendants(os.getpid()):
            if pid not in known:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code, or minus the signal's number, of a child that has ended; it stays a zombie."""
    if not hasattr(os, "waitid"):
        return process.poll()
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _kill_marked(number: int) -> None:
    """Kill the processes that a worker left behind, in whatever session: each has its number in the environment."""
    mark = f"{_MARK}={number}".encode()
    for pid in descendants(os.getpid()):
        # The process may end meanwhile.
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            if mark in file.read().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
