"""Watches processes that run already, with their descendants, until they end.

Nothing is changed in the processes: their `/proc` files and NVML are read. Where the kernel has pidfds, nothing is polled either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Callable

from gpuproof.agent.verdict import Verdict
from gpuproof.agent.verdict.schema import BY_DEVICE
from gpuproof.util.humanize import format_duration
from gpuproof.watch.expected import VISIBLE
from gpuproof.watch.instance import InstanceLookup
from gpuproof.watch.report import WatchReport, read_environment
from gpuproof.watch.running.process_facts import ProcessFacts, read_facts, thread_of, workload_of
from gpuproof.watch.session import WatchSession
from gpuproof.watch.settings import WatchSettings
from gpuproof.watch.signals import SignalQueue

_POLL_S = 0.5
"""How often a process is looked for on kernels without pidfds: Linux before 5.3, and some sandboxes."""
_OF_CONTAINER = "NVIDIA_VISIBLE_DEVICES"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end the watching, not the processes."""


NO_PROCESS, ENDED = 2, 1
"""Exit codes: the id is wrong, or the process ended in the meantime."""


class NotAttached(Exception):
    """A process cannot be watched.

    Args:
        code: `NO_PROCESS` or `ENDED`.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def watch_processes(
    pids: Sequence[int],
    settings: WatchSettings,
    end: Callable[[WatchReport], None],
    seconds: float | None = None,
    begin: Callable[[], None] = lambda: None,
) -> None:
    """Watch processes until the last of them ends, or for a time, or until a signal such as Ctrl-C.

    Args:
        end: receives the report.
        seconds: for how long at most.
        begin: called once the processes are watched.

    Raises:
        NotAttached: there is no such process, or it ended before it was watched.
    """
    with contextlib.ExitStack() as files, contextlib.closing(SignalQueue(ENDING)) as signals:
        # By this process's own variables: those of another one may name any service.
        instance = InstanceLookup(os.environ)
        targets = [_Target(pid) for pid in dict.fromkeys(pids)]
        for target in targets:
            files.callback(target.close)
        read = [read_environment(target.pid) for target in targets]
        environments = [_seen_from_here(target.pid, variables) for target, variables in zip(targets, read)]
        session = WatchSession(
            settings,
            [target.pid for target in targets],
            common_environment(environments),
            left_out=[os.getpid()],
            age_s=max(target.facts.age for target in targets),
        )
        started = time.time()
        session.start()
        begin()
        _wait(targets, signals.fileno(), seconds, session)
        verdict = session.stop()
        notes = [_note(target, started, variables) for target, variables in zip(targets, read)]
        notes += _unmatched(verdict)
    end(
        WatchReport.of(
            verdict,
            pid=targets[0].pid,
            started=started,
            instance=instance.found(),
            hosts=settings.hosts,
            group=settings.group,
            notes=tuple(notes),
        )
    )


def common_environment(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The variables of several processes that count as one: the GPUs that any of them can see."""
    common = dict(environments[0])
    visible = [environment.get(VISIBLE) for environment in environments]
    if any(value is None for value in visible):
        common.pop(VISIBLE, None)
    else:
        words = (word.strip() for value in visible for word in (value or "").split(","))
        common[VISIBLE] = ",".join(dict.fromkeys(word for word in words if word))
    return common


def host_devices(environment: Mapping[str, str]) -> str | None:
    """`CUDA_VISIBLE_DEVICES` of a process in a container, as the host numbers GPUs; `None` if the container has all of them.

    Source: NVIDIA Container Toolkit, "Environment variables (OCI spec)": NVIDIA_VISIBLE_DEVICES.
    """
    visible, given = environment.get(VISIBLE), environment.get(_OF_CONTAINER, "")
    if given in ("", "all"):
        return visible
    gpus = [] if given in ("none", "void") else [word.strip() for word in given.split(",")]
    if visible is None:
        return ",".join(gpus)
    words = [word.strip() for word in visible.split(",")]
    return ",".join(
        gpus[int(word)] if word.isdigit() and int(word) < len(gpus) else word for word in words if word
    )


def _seen_from_here(pid: int, environment: dict[str, str]) -> dict[str, str]:
    if _OF_CONTAINER not in environment or workload_of(pid) in (None, workload_of(os.getpid())):
        return environment
    devices = host_devices(environment)
    return environment if devices is None else {**environment, VISIBLE: devices}


class _Target:
    """A process to watch, whose id cannot come to stand for another one unnoticed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # First the descriptor, then the facts: they are those of this process if it is still running afterwards.
        self.descriptor = _open_pidfd(pid)
        facts = read_facts(pid)
        if facts is None or (self.descriptor is not None and _is_readable(self.descriptor)):
            hidden = self.descriptor is not None and not _is_readable(self.descriptor)
            self.close()
            raise _hidden(pid) if hidden else _ended(pid)
        self.facts: ProcessFacts = facts

    def has_ended(self) -> bool:
        """Whether the process has ended; a zombie has."""
        if self.descriptor is not None:
            return _is_readable(self.descriptor)
        facts = read_facts(self.pid)
        return facts is None or facts.start_ticks != self.facts.start_ticks

    def close(self) -> None:
        """Close the descriptor, which becomes readable when the process ends; kernels without pidfds have none."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _open_pidfd(pid: int) -> int | None:
    if (process := thread_of(pid)) is not None:
        raise NotAttached(
            f"{pid} is a thread of process {process}. Type: gpuproof watch --pid {process}", NO_PROCESS
        )
    try:
        return os.pidfd_open(pid)
    except AttributeError:  # a Python that was built on an older kernel
        return None
    except (OSError, OverflowError) as error:
        if isinstance(error, OverflowError) or error.errno in (errno.ESRCH, errno.EINVAL):
            raise NotAttached(
                f"No process has the id {pid}. `gpuproof watch --for 10s` lists those that use a GPU.",
                NO_PROCESS,
            ) from None
        return None


def _ended(pid: int) -> NotAttached:
    return NotAttached(f"Process {pid} ended before watching began.", ENDED)


def _hidden(pid: int) -> NotAttached:
    return NotAttached(
        f"Process {pid} is hidden from this user. Type: sudo gpuproof watch --pid {pid}", ENDED
    )


def _wait(targets: Sequence[_Target], signals: int, seconds: float | None, session: WatchSession) -> None:
    """Wait until all processes have ended, a signal has arrived, or the time is over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    running = list(targets)
    while running:
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        for target in running:
            if target.descriptor is not None:
                poll.register(target.descriptor, select.POLLIN)
        is_polled = any(target.descriptor is None for target in running)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        waits = [value for value in (left, _POLL_S if is_polled else None) if value is not None]
        ready = poll.poll(1000 * min(waits) if waits else None)
        if any(descriptor == signals for descriptor, _ in ready) or left == 0.0:
            return
        left_over = [target for target in running if not target.has_ended()]
        if left_over and len(left_over) < len(running):
            # The id of one that has ended may be given to another process.
            session.set_roots(target.pid for target in left_over)
        running = left_over


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _unmatched(verdict: Verdict) -> list[str]:
    """How busy GPUs were of which it is unknown for which process they worked."""
    return [
        f"GPU {gpu.index} was {gpu.mean_utilization:.0f}% busy on average while it was used, by this process or by others."
        for gpu in verdict.gpus
        if gpu.worked is None and gpu.judged_by == BY_DEVICE and gpu.mean_utilization
    ]


def _note(target: _Target, began: float, environment: Mapping[str, str]) -> str:
    facts = target.facts
    age = format_duration(max(0.0, began - facts.started))
    until = "and has ended" if target.has_ended() else "and still running"
    unread = "" if environment else "; only root and its user can read its variables"
    return f"Process {target.pid} of {facts.user}, watched from {age} after its start {until}{unread}: {facts.command_line}"
