"""The keeper: a process between agent and script that lives in the script's world and answers for all of it.

The agent forks it before it starts a thread. The keeper enters the private `/opt/ml`, starts the script when told to,
adopts whatever the script leaves behind, and ends all of it when the script ends or when the agent is no more: the
agent's end closes their socket, however it came about. While anything of the run still lives, the keeper holds the
run's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpuproof.agent.isolation.opt_ml_mounts import NamespaceUnavailable, enter_private_contract
from gpuproof.agent.job import Mount
from gpuproof.util.process_tree import adopt_orphans, descendants, die_with_parent, end_descendants


@dataclass(frozen=True)
class Launch:
    """How to start the script.

    Args:
        command: program and arguments.
        environment: the whole environment.
        folder: working directory.
        wrapped: whether the program starts the script below itself, as proot does, and keeps signals from it.
    """

    command: list[str]
    environment: dict[str, str]
    folder: str
    wrapped: bool = False


class KeeperLost(Exception):
    """The keeper ended before it should have."""


class Keeper:
    """The agent's end of the keeper.

    Args:
        pid: the keeper's process id.
        output: file descriptor from which the script's standard output and error can be read.
    """

    def __init__(self, pid: int, channel: socket.socket, output: int) -> None:
        self.pid = pid
        self.output = output
        self._channel = channel
        self._buffer = b""

    @classmethod
    def start(cls, ml: Path | None, mounts: Sequence[Mount]) -> Keeper:
        """Fork the keeper.

        Args:
            ml: the folder that shall be its `/opt/ml`; `None` leaves it in the agent's own world.
            mounts: what shall show below `/opt/ml`.
        """
        ours, theirs = socket.socketpair()
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                os.close(readable)
                _Kept(theirs, writable).run(ml, mounts)
            finally:
                os._exit(0)
        theirs.close()
        os.close(writable)
        return cls(pid, ours, readable)

    def fileno(self) -> int:
        """Becomes readable when `message` has something to give."""
        return self._channel.fileno()

    def launch(self, launch: Launch) -> None:
        """Start the script; `message` tells its process id or why it could not be started."""
        self._send({"launch": asdict(launch)})

    def signal(self, number: int) -> None:
        """Send a signal to the script, if it still runs."""
        self._send({"signal": number})

    def kill(self) -> None:
        """End the script and everything it started, at once."""
        self._send({"kill": True})

    def message(self) -> dict[str, Any]:
        """The keeper's next message, waiting for it.

        `{"entered": True}` or `{"entered": False, "reason": …}`; `{"started": PID}` or `{"refused": REASON}`;
        `{"ended": CODE}` with the exit code, or minus the number of the signal that killed the script.

        Raises:
            KeeperLost: there will be none.
        """
        while b"\n" not in self._buffer:
            received = self._channel.recv(65536)
            if not received:
                raise KeeperLost
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """Let the keeper go; it ends whatever is left of the script first."""
        self._channel.close()
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # It has ended; `message` says so to whom it concerns.
            return


def _wake(_number: int, _frame: object) -> None:
    """A handler, so that the signal's number is written to the wake-up pipe."""


class _Kept:
    """The keeper's own side."""

    def __init__(self, channel: socket.socket, output: int) -> None:
        self._channel = channel
        self._output = output
        self._script: int | None = None
        self._wrapped = False

    def run(self, ml: Path | None, mounts: Sequence[Mount]) -> None:
        # It outlives the agent by a moment, to end the script's processes: a signal to the group must not stop it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        adopt_orphans()
        if not self._enter(ml, mounts):
            return
        try:
            self._serve()
        finally:
            end_descendants()

    def _enter(self, ml: Path | None, mounts: Sequence[Mount]) -> bool:
        try:
            if ml is not None:
                enter_private_contract(ml, mounts)
        except (NamespaceUnavailable, OSError) as error:
            self._tell({"entered": False, "reason": str(error)})
            return False
        self._tell({"entered": True})
        return True

    def _serve(self) -> None:
        wake, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        buffer = b""
        while True:
            ready, _, _ = select.select([self._channel, wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                if self._collect():
                    return
            if self._channel in ready:
                received = self._channel.recv(1 << 20)
                if not received:
                    return
                *lines, buffer = (buffer + received).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))

    def _obey(self, message: dict[str, Any]) -> None:
        if "launch" in message:
            self._launch(Launch(**message["launch"]))
        elif self._script is not None and "signal" in message:
            below = descendants(self._script)[:1] if self._wrapped else []
            with contextlib.suppress(ProcessLookupError):
                os.kill(below[0] if below else self._script, message["signal"])
        elif self._script is not None and "kill" in message:
            os.kill(self._script, signal.SIGKILL)

    def _launch(self, launch: Launch) -> None:
        # The script must not start before its process id is known to us, or its end could not be told from others'.
        self._wrapped = launch.wrapped
        failed, failing = os.pipe()
        self._script = os.fork()
        if self._script == 0:
            self._become(launch, failing)
        os.close(failing)
        os.close(self._output)
        reason = os.read(failed, 4096)
        os.close(failed)
        if reason:
            os.waitpid(self._script, 0)
            self._script = None
            self._tell({"refused": reason.decode(errors="replace")})
        else:
            self._tell({"started": self._script})

    def _become(self, launch: Launch, failing: int) -> None:
        about = launch.folder
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            for number in (
                signal.SIGINT,
                signal.SIGTERM,
                signal.SIGHUP,
                signal.SIGQUIT,
                signal.SIGCHLD,
                signal.SIGPIPE,
            ):
                signal.signal(number, signal.SIG_DFL)
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(self._output, 1)
            os.dup2(self._output, 2)
            os.chdir(launch.folder)
            about = launch.command[0]
            # Everything else was opened close-on-exec, the run's lock too (PEP 446).
            os.execvpe(launch.command[0], launch.command, launch.environment)  # noqa: S606
        except (OSError, ValueError) as error:
            # ValueError: a NUL in an argument or a variable.
            why = getattr(error, "strerror", None) or error
            os.write(failing, f"{about}: {why}".encode(errors="replace"))
        finally:
            os._exit(127)

    def _collect(self) -> bool:
        """Collect children that have ended; whether the script was one of them."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended.append((pid, status))
        for pid, status in ended:
            if pid == self._script:
                end_descendants()
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                self._tell({"ended": code})
                return True
        return False

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            # The agent is gone; the next read says so.
            return
