"""What the agent needs to notice a script that hangs, and to say where."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

from gpuproof.agent.job import AgentJob
from gpuproof.agent.output import Sink
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.ranks.watched import is_watcher
from gpuproof.agent.stall import FAULTHANDLER_VARIABLE
from gpuproof.agent.stall.progress import Progress, stall_text
from gpuproof.util.process_tree import descendants


class StallWatch:
    """The progress of a script, and its stack traces.

    Args:
        timeout: seconds without progress after which the script counts as hanging.
        tools: folders in which py-spy may be installed.
        counts: the folder in which the script's processes count their examples.
    """

    def __init__(self, timeout: float, sink: Sink, tools: list[Path], counts: Path | None = None) -> None:
        self.timeout = timeout
        self.progress = Progress(counts=counts)
        self._sink = sink
        self._tools = tools

    @classmethod
    def of(cls, job: AgentJob, paths: RunPaths, sink: Sink) -> StallWatch | None:
        """The watch for a job; `None` if it has no `stall_timeout`."""
        if job.stall_timeout is None:
            return None
        tools = [Path(job.python).parent, paths.packages / "bin"]
        return cls(job.stall_timeout, sink, tools, paths.throughput)

    @property
    def text(self) -> str:
        """Why the script was stopped."""
        return stall_text(self.timeout)

    def print_stacks(self, root: int) -> None:
        """Print the stack traces of all Python processes below a process into the log."""

        print_stack_traces(root, self._sink, self._tools)


_PY_SPY = "py-spy"
_PY_SPY_SECONDS = 10.0
_MOST_BY_PY_SPY = 64
"""Processes that py-spy prints, half a second each; the ranks come before the workers that they have started."""
_END_SECONDS = 5.0
_PASS_ON_SECONDS = 1.0
"""For a launcher to pass on what its ranks have printed."""
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def print_stack_traces(root: int, sink: Sink, tools: list[Path]) -> None:
    """Print the stacks of all Python processes below a process into the log.

    Args:
        tools: folders in which py-spy may be, besides those on `PATH`.
    """
    python = [pid for pid in descendants(root) if _is_python(pid) and not is_watcher(pid)]
    ranks = [pid for pid in python if _rank(pid) is not None]
    pids = ranks or python
    which = "the ranks' Python processes" if ranks else "all Python processes"
    sink.write(_line(f"no progress (stall_timeout): stack traces of {which} ({len(pids)})", sink))
    spy = find_py_spy(tools)
    rest = [
        pid
        for number, pid in enumerate(pids)
        if spy is None or (number < _MOST_BY_PY_SPY and not _print_by_py_spy(spy, pid, sink))
    ]
    _abort_all(rest, descendants(root), sink)


def find_py_spy(tools: list[Path]) -> str | None:
    """The path of py-spy, or `None`."""
    folders = os.pathsep.join([*map(str, tools), os.environ.get("PATH", os.defpath)])
    return shutil.which(_PY_SPY, path=folders)


def _print_by_py_spy(spy: str, pid: int, sink: Sink) -> bool:
    """Whether py-spy could read the process: that needs the right to trace it (ptrace(2))."""
    try:
        done = subprocess.run(
            [spy, "dump", "--pid", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PY_SPY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if done.returncode != 0 or not done.stdout.strip():
        return False
    sink.write(_line(_describe(pid), sink) + done.stdout.rstrip(b"\n") + b"\n")
    return True


def _abort_all(pids: list[int], everything: list[int], sink: Sink) -> None:
    """End the processes one after the other, while the others are suspended; the script's own process is the last."""
    if not pids:
        return
    for pid in everything:
        _signal(pid, signal.SIGSTOP)
    # The first may be the script itself: with its end, everything ends.
    for pid in [*pids[1:], pids[0]]:
        sink.write(_line(_describe(pid), sink))
        _signal(pid, signal.SIGABRT)
        _signal(pid, signal.SIGCONT)
        _wait_until(lambda pid=pid: _has_ended(pid))
    for pid in everything:
        _signal(pid, signal.SIGCONT)
    if everything[0] not in pids:
        time.sleep(_PASS_ON_SECONDS)


def _describe(pid: int) -> str:
    rank = _rank(pid)
    return f"process {pid}" if rank is None else f"process {pid}, rank {rank}"


def _rank(pid: int) -> str | None:
    environment = _environment(pid)
    return next((environment[name] for name in _RANK_VARIABLES if environment.get(name)), None)


def _line(text: str, sink: Sink) -> bytes:
    return (b"" if sink.ends_line else b"\n") + f"gpuproof: {text}:\n".encode()


def _is_python(pid: int) -> bool:
    try:
        program = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - a process may be gone
    except OSError:
        return False
    return Path(program).name.startswith("python") and FAULTHANDLER_VARIABLE in _environment(pid)


def _environment(pid: int) -> dict[str, str]:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.decode(errors="replace").partition("=") for entry in content.split(b"\0"))
    return {name: value for name, _, value in pairs}


def _has_ended(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    # A zombie, whose parent is suspended: proc_pid_stat(5).
    return stat[stat.rindex(b")") + 2 :].startswith((b"Z", b"X"))


def _wait_until(is_true: Callable[[], bool]) -> None:
    until = time.monotonic() + _END_SECONDS
    while not is_true() and time.monotonic() < until:
        time.sleep(0.01)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
