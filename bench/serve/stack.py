"""One running stack: starting, requesting, pausing, measuring and terminating it."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.errors import GPUproofError
from gpuproof.loadtest import Target, probe

_PATIENCE_S = 90.0
_STEP_S = 0.01
_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""With more, two processes on two cores wait for each other most of the time."""


class StackFailed(Exception):
    """Raised if a stack does not start or returns wrong answers."""


@dataclass
class Stack:
    """A running server.

    Args:
        process: its root.
        target: a request, as it is measured.
        ping: a request for its health.
        cold_ping: seconds from its start to the first 200 of its health.
        cold_answer: seconds from its start to the first 200 of a prediction.
    """

    process: subprocess.Popen[bytes]
    target: Target
    ping: Target
    cold_ping: float = 0.0
    cold_answer: float = 0.0

    def pause(self) -> None:
        """Stop its processes, since idle servers use CPU time for polling."""
        self._signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue its processes."""
        self._signal_all(signal.SIGCONT)

    def memory(self) -> int:
        """Bytes of its whole process tree, shared pages split among those who share them (PSS)."""
        return sum(_pss(pid) for pid in _tree(self.process.pid))

    def cpu(self) -> float:
        """CPU seconds of its processes so far."""
        return sum(_cpu(pid) for pid in _tree(self.process.pid))

    def end(self) -> None:
        """Kill it with all its processes."""
        self.go_on()
        tree = _tree(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in tree[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
                # Orphans come to this process, the subreaper; those whose parent still lives do not.
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in _tree(self.process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def start(
    command: list[str],
    environment: Mapping[str, str],
    target: Target,
    ping: Target,
    log: Path,
    patience: float = _PATIENCE_S,
) -> Stack:
    """Start a server and wait until it predicts; raises Failed with the end of its log.

    Args:
        patience: seconds until `/ping` returns 200, and again until it predicts.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log.open("wb") as sink:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            env={**inherited, **ONE_THREAD, **environment},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    stack = Stack(process, target, ping)
    try:
        stack.cold_ping = _until_200(stack, ping, log, patience) - began
        stack.cold_answer = _until_200(stack, target, log, patience) - began
    except BaseException:
        stack.end()
        raise
    return stack


def free_port() -> int:
    """The first of five consecutive free ports; below 32,768, since multi-model-server takes no others."""
    while True:
        first = random.randrange(20_000, 32_000)
        try:
            for port in range(first, first + 5):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first


def _until_200(stack: Stack, target: Target, log: Path, patience: float) -> float:
    deadline = time.monotonic() + patience
    problem = "nothing"
    while time.monotonic() < deadline and stack.process.poll() is None:
        try:
            answer = probe(target)
        except GPUproofError as error:
            problem = error.message
        else:
            if answer.status == 200:
                return time.monotonic()
            problem = f"{answer.status} {answer.body.decode(errors='replace')}"
        time.sleep(_STEP_S)
    end = log.read_text(errors="replace").strip().splitlines()[-3:]
    raise StackFailed(
        f"no 200 from {target.path}: {problem[:200]}; the end of its log: {' / '.join(end)[-600:]}"
    )


def _tree(root: int) -> list[int]:
    """The process and all its descendants, parents first."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def machine_cpu() -> float:
    """CPU seconds of all programs of this machine so far, including time stolen by its host."""
    user, nice, system, _idle, _waiting, irq, softirq, stolen = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + stolen) / _TICKS


def _cpu(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / _TICKS


def _pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
