"""The reaper: the guard process between agent and script, the init process of everything that the script starts.

The agent forks it before it starts a thread. The reaper enters the private `/opt/ml`, starts the script on request,
adopts the processes that the script leaves behind, and kills all of them when the script or the agent ends. The run's
lock stays held until the reaper has ended.

There is a third process between the two, the backstop. The kernel makes each of them the parent of the processes that one
below it leaves behind, so that nothing stays when any two of the three are killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable

from gpuproof.agent.isolation.hosts_file import bind_hosts_file, write_hosts_file
from gpuproof.agent.isolation.opt_ml_mounts import NamespaceUnavailable, enter_private_contract
from gpuproof.agent.job import Mount
from gpuproof.agent.paths import HOSTS_FILE_COPY
from gpuproof.util.cgroup import add_to_group, create_group, end_group
from gpuproof.util.process_guard import STOP_SIGNALS, Guard, GuardClient, Message, fork_guard
from gpuproof.util.process_tree import adopt_orphans, descendants, die_with_parent, end_descendants


@dataclass(frozen=True)
class Launch:
    """How to start the script.

    Args:
        group: name of a control group for the script, if this host has them.
        wrapped: whether the program starts the script as its own child, as proot does, and does not pass signals on.
    """

    command: list[str]
    environment: dict[str, str]
    folder: str
    wrapped: bool = False
    group: str = ""


class ReaperLost(Exception):
    """The reaper ended before the script."""


class Reaper(GuardClient):
    """The agent's end of the reaper.

    Args:
        output: file descriptor from which the script's standard output and error can be read.
    """

    def __init__(self, pid: int, channel: socket.socket, output: int) -> None:
        super().__init__(pid, channel)
        self.output = output
        self.script_parent = pid
        """The reaper's process id, once the script has been started: the script and what it starts are below it."""
        self._messages: deque[Message] = deque()

    @classmethod
    def start(
        cls, ml: Path | None, mounts: Sequence[Mount], addresses: Mapping[str, str] | None = None
    ) -> Reaper:
        """Fork the reaper.

        Args:
            ml: the folder to show as `/opt/ml`; `None` changes nothing about the file system.
            mounts: files and folders to show below `/opt/ml`.
            addresses: names to add to `/etc/hosts`; ignored without `ml`, beside which the file is written.
        """
        readable, writable = os.pipe()

        def run(channel: socket.socket) -> None:
            os.close(readable)
            _backstop(
                lambda: _ReaperProcess(channel, writable).run(ml, mounts, addresses or {}),
                [channel.fileno(), writable],
            )

        pid, channel = fork_guard(run)
        os.close(writable)
        return cls(pid, channel, readable)

    def fileno(self) -> int:
        """File descriptor that is readable when `message` returns without waiting."""
        return self.channel.fileno()

    def launch(self, launch: Launch) -> None:
        """Start the script; the next message has its process id, or why it could not be started."""
        self.send({"launch": asdict(launch)})

    def signal(self, number: int) -> None:
        """Send a signal to the script, if it is running."""
        self.send({"signal": number})

    def kill(self) -> None:
        """Kill the script and everything it started."""
        self.send({"kill": True})

    def message(self) -> Message:
        """Wait for the reaper's next message and return it.

        The messages are `{"entered": True}`, with `unresolved` and the reason if the hosts' names do not resolve, or
        `{"entered": False, "reason": …}`, `{"started": PID}` or
        `{"refused": REASON}`, `{"group": FOLDER}` if the script is in a control group, and `{"ended": CODE}` with the exit code, or minus the number of the signal that killed
        the script.

        Raises:
            ReaperLost: the reaper has ended.
        """
        while not self._messages:
            received = self.channel.recv(65536)
            if not received:
                raise ReaperLost
            self._messages.extend(self.lines.feed(received))
        message = self._messages.popleft()
        self.script_parent = message.get("reaper", self.script_parent)
        return message


def _backstop(run: Callable[[], None], files: Sequence[int]) -> None:
    """Fork: the child runs the reaper; this process waits for its end and kills what it leaves behind.

    Args:
        files: descriptors that only the reaper keeps: the agent learns of its end when they are closed.
    """
    adopt_orphans()
    pid = os.fork()
    if pid == 0:
        run()
        return
    for file in files:
        os.close(file)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ChildProcessError):
        while os.wait()[0] != pid:
            pass
    end_descendants()


class _ReaperProcess(Guard):
    """The reaper's own side."""

    def __init__(self, channel: socket.socket, output: int) -> None:
        super().__init__(channel)
        self._output = output
        self._script: int | None = None
        self._wrapped = False
        self._group: Path | None = None

    def run(self, ml: Path | None, mounts: Sequence[Mount], addresses: Mapping[str, str]) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        if self._enter(ml, mounts, addresses):
            try:
                self.serve()
            finally:
                if self._group is not None:
                    end_group(self._group)

    def on_message(self, message: Message) -> None:
        if "launch" in message:
            self._launch(Launch(**message["launch"]))
        elif self._script is not None and "signal" in message:
            below = descendants(self._script)[:1] if self._wrapped else []
            with contextlib.suppress(ProcessLookupError):
                os.kill(below[0] if below else self._script, message["signal"])
        elif self._script is not None and "kill" in message:
            os.kill(self._script, signal.SIGKILL)

    def on_child_exit(self) -> bool:
        """Collect children that have ended; return whether the script is one of them."""
        ended: list[tuple[int, int]] = []
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                ended.append((pid, status))
        for pid, status in ended:
            if pid == self._script:
                end_descendants()
                self.send(
                    {"ended": -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)}
                )
                return True
        return False

    def _enter(self, ml: Path | None, mounts: Sequence[Mount], addresses: Mapping[str, str]) -> bool:
        try:
            if ml is not None:
                enter_private_contract(ml, mounts)
        except (NamespaceUnavailable, OSError) as error:
            self.send({"entered": False, "reason": str(error)})
            return False
        unresolved: Message = {}
        if ml is not None and addresses:
            try:
                file = ml.with_name(HOSTS_FILE_COPY)
                write_hosts_file(file, addresses)
                bind_hosts_file(file)
            except OSError as error:
                unresolved = {"unresolved": f"/etc/hosts: {error.strerror}"}
        self.send({"entered": True, **unresolved})
        return True

    def _launch(self, launch: Launch) -> None:
        # The script must not run before its process id is known here: its exit must not be taken for another process's.
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
            self.send({"refused": reason.decode(errors="replace")})
        else:
            self.send({"started": self._script, "reaper": os.getpid()})
            self._move_to_group(launch.group)

    def _move_to_group(self, name: str) -> None:
        """Move the script into a control group of its own: the kernel can end it even if agent and guards are gone.

        After the start, because it may take 15 ms. What the script starts before is below it, as without a group.
        """
        group = create_group(name) if name and self._script is not None else None
        if group is None:
            return
        self._group = group
        if add_to_group(group, self._script or 0):
            self.send({"group": str(group)})

    def _become(self, launch: Launch, failing: int) -> None:
        subject = launch.folder
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            for number in (*STOP_SIGNALS, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(self._output, 1)
            os.dup2(self._output, 2)
            os.chdir(launch.folder)
            subject = launch.command[0]
            # All other descriptors are close-on-exec, the run's lock too (PEP 446).
            os.execvpe(launch.command[0], launch.command, launch.environment)  # noqa: S606
        except (OSError, ValueError) as error:
            # ValueError: a NUL in an argument or a variable.
            why = getattr(error, "strerror", None) or error
            os.write(failing, f"{subject}: {why}".encode(errors="replace"))
        finally:
            os._exit(127)
