"""Supervises the running script: stop requests, deadlines, other hosts, and the script's end."""

from __future__ import annotations

import enum
import select
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent import state as states
from gpuproof.agent.failure import StopReason
from gpuproof.agent.isolation.reaper import Reaper, ReaperLost
from gpuproof.agent.job import AgentJob
from gpuproof.agent.notify.events import COST, STALLED, UNUSED
from gpuproof.agent.outcome import Outcome
from gpuproof.agent.signals import StopRequest, StopSignals
from gpuproof.agent.state import RunState
from gpuproof.util.process_tree import collect_ended

if TYPE_CHECKING:
    from gpuproof.agent.cluster.session import Session
    from gpuproof.agent.monitor import Monitor
    from gpuproof.agent.notify.notifier import Notifier
    from gpuproof.agent.ranks.host_failure import Failure
    from gpuproof.agent.stall.watch import StallWatch


STOPPED_UNUSED = "stopped_for_unused_gpu"
"""Key of `run.json`: whether the run was ended because no GPU did any work."""
REAPER_KILLED = "the agent's reaper process, which runs the script, was killed"
_HURRIED_GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL if the job has failed elsewhere, or hangs: there is nothing left to wait for."""


class Supervisor:
    """Waits for the script to end, and ends it when that is requested or due.

    Args:
        state: the run's state, updated as it changes.
        stall: notices a script that hangs, if the job has a `stall_timeout`.
        session: contact with the other hosts, if there are any.
        notifier: sends notifications, if the job asks for any.
    """

    def __init__(
        self,
        job: AgentJob,
        state: RunState,
        signals: StopSignals,
        outcome: Outcome,
        notes: list[str],
        reaper: Reaper,
        ranks: Path,
        stall: StallWatch | None = None,
        session: Session | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        self._job = job
        self._state = state
        self._signals = signals
        self._outcome = outcome
        self._notes = notes
        self._reaper = reaper
        self._ranks = ranks
        self._stall = stall
        self._session = session
        self._notifier = notifier
        self._deadlines = Deadlines()
        self._stopping = False
        self._monitor: Monitor | None = None
        self._grace = job.stop_grace

    def script_started(self, at: float) -> None:
        """Set the deadlines of a script that has just been started.

        Args:
            at: when, by the monotonic clock.
        """
        if self._job.max_duration is not None:
            self._deadlines.set(Deadline.MAX_DURATION, at + self._job.max_duration)
        if self._job.if_gpu_unused is not None and self._job.expected_gpus:
            self._deadlines.set(Deadline.GPU_GRACE, at + self._job.if_gpu_unused.grace)
        if self._stall is not None and self._session is None:
            # With other hosts, all of them have to hang: the coordinator decides.
            self._deadlines.set(Deadline.STALL, at + self._stall.timeout)

        notify = self._job.notify
        if notify is not None and (left := notify.seconds_until_cost) is not None:
            # Hosts are paid for from their own start, which is not known here.
            prepared = time.time() - (self._state["started"] or time.time())
            self._deadlines.set(Deadline.COST, at - prepared + left)

    def wait(self, monitor: Monitor) -> int:
        """Wait until the script has ended; returns its exit code, or minus the number of the signal that killed it."""
        self._monitor = monitor
        sources = [self._reaper, self._signals, *([self._session] if self._session else [])]
        while True:
            ready, _, _ = select.select(sources, [], [], self._deadlines.wait(time.monotonic()))
            if self._signals in ready:
                collect_ended()
                self._handle_stop_requests()
            for deadline in self._deadlines.due(time.monotonic()):
                self._handle_deadline(deadline, monitor)
            if self._session is not None and self._session in ready:
                self._session.handle(self)
            if self._reaper in ready:
                try:
                    message = self._reaper.message()
                except ReaperLost:
                    self._outcome.record(states.FAILED, REAPER_KILLED)
                    self._report(states.FAILED, REAPER_KILLED, of_host=True)
                    return -signal.SIGKILL
                if "ended" in message:
                    return message["ended"]
                if "group" in message:
                    self._state.update(control_group=message["group"])

    def known_failures(self) -> list[Failure]:
        """Failures of ranks on this host that are known so far."""
        from gpuproof.agent.ranks.script_failure import rank_failures  # only with several hosts

        return rank_failures(self._job, self._ranks)

    def print_stacks(self) -> None:
        """Print the stack traces of all processes of the script into its log."""
        if self._stall is not None:
            self._notify(STALLED, self._stall.text)
            self._stall.print_stacks(self._reaper.script_parent)

    def stop_with_others(self, failure: Failure) -> None:
        """End the script, because all hosts end."""
        grace = self._job.stop_grace if failure.status == states.STOPPED else _HURRIED_GRACE
        if not self._stopping:
            self._record_stop(failure.text)
        self._end_script(min(grace, self._job.stop_grace))

    def _handle_stop_requests(self) -> None:
        while (request := self._signals.take()) is not None:
            if request is StopRequest.AT_ONCE:
                self._record_stop("killed on request")
                self._outcome.record(states.STOPPED, "killed on request")
                self._reaper.kill()
                self._report(states.STOPPED, "killed on request", of_host=True)
            else:
                self._stop(states.STOPPED, "stopped on request", of_host=True)

    def _handle_deadline(self, deadline: Deadline, monitor: Monitor) -> None:
        if deadline is Deadline.STOP_GRACE:
            self._notes.append(f"the script did not end within {self._grace:g} s of SIGTERM and was killed")
            self._reaper.kill()
        elif deadline is Deadline.MAX_DURATION:
            self._stop(
                states.STOPPED,
                f"max_duration of {self._job.max_duration:g} s exceeded",
                secondary="MaxRuntimeExceeded",
            )
        elif deadline is Deadline.COST:
            self._notify_cost()
        elif deadline is Deadline.STALL and self._stall is not None:
            self._handle_stall(self._stall)
        elif deadline is Deadline.GPU_GRACE and monitor.gpu_used() is False:
            self._handle_unused_gpu(monitor)

    def _handle_unused_gpu(self, monitor: Monitor) -> None:
        rule = self._job.if_gpu_unused
        assert rule is not None
        problem = monitor.driver_problem()
        if problem is not None:
            why = f"{problem.reason} {problem.remedy} (if_gpu_unused: {rule.action})"
        else:
            why = f"no GPU did any work in the first {rule.grace:g} s, and the job requires one (if_gpu_unused: {rule.action})"
        self._notify(UNUSED, why)
        if rule.action == "warn":
            self._notes.append(why)
            self._state.update(notes=self._notes)
        else:
            self._state.update(**{STOPPED_UNUSED: True})
            status = states.STOPPED if rule.action == "stop" else states.FAILED
            self._stop(status, why, code=StopReason.GPU_UNUSED, of_host=True)

    def _handle_stall(self, stall: StallWatch) -> None:
        left = stall.timeout - stall.progress.idle()
        if left > 0:
            self._deadlines.set(Deadline.STALL, time.monotonic() + left)
            return
        self.print_stacks()
        self._stop(states.FAILED, stall.text, grace=_HURRIED_GRACE)

    def _notify(self, event: str, reason: str, **more: float) -> None:
        if self._notifier is not None:
            self._notifier.send(event, reason, **more)

    def _notify_cost(self) -> None:
        notify = self._job.notify
        assert notify is not None
        assert notify.cost_usd is not None
        assert notify.usd_per_hour is not None
        hours = notify.cost_usd / notify.usd_per_hour
        self._notify(
            COST,
            f"about ${notify.cost_usd:,.2f} so far, ${notify.usd_per_hour:,.2f} an hour, and it is still running",
            cost_usd=notify.cost_usd,
            usd_per_hour=notify.usd_per_hour,
            hours=round(hours, 3),
        )

    def _stop(
        self,
        status: str,
        why: str,
        *,
        secondary: str | None = None,
        code: StopReason | None = None,
        grace: float | None = None,
        of_host: bool = False,
    ) -> None:
        if self._stopping:
            return
        self._record_stop(why, code)
        self._outcome.record(status, why, secondary, code)
        self._end_script(self._job.stop_grace if grace is None else min(grace, self._job.stop_grace))
        self._report(status, why, secondary, code, of_host=of_host)

    def _record_stop(self, why: str, code: StopReason | None = None) -> None:
        if self._monitor is not None:
            self._monitor.record_stop("stop" if code is None else code.value, why)

    def _report(
        self,
        status: str,
        why: str,
        secondary: str | None = None,
        code: StopReason | None = None,
        *,
        of_host: bool = False,
    ) -> None:
        """Report to the other hosts why the script is ended.

        Args:
            of_host: whether the reason concerns this host alone.
        """
        if self._session is not None:
            self._session.fail(status, why, secondary, code, self._job.current_host if of_host else None)

    def _end_script(self, grace: float) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._grace = grace
        # The signal first: writing the state may find the disk full.
        self._reaper.signal(signal.SIGTERM)
        self._deadlines.set(Deadline.STOP_GRACE, time.monotonic() + grace)
        self._state.update(status=states.STOPPING, secondary_status="Stopping")


class Deadline(enum.Enum):
    """What becomes due."""

    MAX_DURATION = "max_duration"
    GPU_GRACE = "gpu_grace"
    STOP_GRACE = "stop_grace"
    STALL = "stall"
    COST = "cost"


@dataclass
class Deadlines:
    """Points in time, in seconds of a monotonic clock; each becomes due once."""

    _at: dict[Deadline, float] = field(default_factory=dict)

    def set(self, deadline: Deadline, at: float) -> None:
        """Set a deadline; one that is set already keeps the earlier time."""
        self._at[deadline] = min(at, self._at.get(deadline, at))

    def wait(self, now: float) -> float | None:
        """Seconds until the next deadline; `None` without one."""
        return max(0.0, min(self._at.values()) - now) if self._at else None

    def due(self, now: float) -> list[Deadline]:
        """Remove and return the deadlines that have passed, earliest first."""
        passed = sorted(
            (deadline for deadline, at in self._at.items() if at <= now),
            key=lambda deadline: self._at[deadline],
        )
        for deadline in passed:
            del self._at[deadline]
        return passed
