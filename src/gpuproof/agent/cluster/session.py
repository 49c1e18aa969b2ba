"""The part that one host's runner plays in a job with several hosts."""

from __future__ import annotations

import select
import time
from typing import Callable, Protocol

from gpuproof.agent import state as states
from gpuproof.agent.cluster.coordinator import Coordinator
from gpuproof.agent.cluster.link import Event, Link
from gpuproof.agent.cluster.member import Member
from gpuproof.agent.cluster.messages import Kind
from gpuproof.agent.cluster.timing import Timing
from gpuproof.agent.failure import StopReason
from gpuproof.agent.job import AgentJob
from gpuproof.agent.ranks.host_failure import Failure
from gpuproof.agent.signals import StopRequest, StopSignals


class RunningScript(Protocol):
    """The script on this host, as far as other hosts have to do with it."""

    def known_failures(self) -> list[Failure]:
        """Failures of ranks on this host that are known so far."""
        ...

    def print_stacks(self) -> None:
        """Print the stack traces of all processes into the log."""
        ...

    def stop_with_others(self, failure: Failure) -> None:
        """End the script, because of what has happened on any host."""
        ...


class Session:
    """Contact with the other hosts, from before the script's start until all hosts have ended."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._finished = False
        self._reported = False
        self.decision: Failure | None = None
        """Why all hosts are stopped; `None` as long as they are not."""
        self.waits: dict[str, float] = {}
        """How long this host, when it was ready, waited for the others: `start_wait_s` and `end_wait_s`, in seconds."""

    def fileno(self) -> int:
        """File descriptor that is readable when `handle` has something to do."""
        return self._link.fileno()

    def decided_by(self, host: str) -> bool:
        """Whether all hosts are stopped because of a failure of a host."""
        return self.decision is not None and self.decision.host == host

    def wait_for_start(self) -> Failure | None:
        """Wait until the scripts of all hosts can be started; returns why they shall not be, or `None`."""
        self._link.report(Kind.READY)
        ready = time.monotonic()
        while True:
            event = self._next_event()
            if event.kind is Kind.GATHER:
                self._link.report(Kind.GATHERED)
            elif event.kind is Kind.STOP:
                self.decision = event.failure
                return event.failure
            elif event.kind is Kind.START:
                self.waits["start_wait_s"] = round(time.monotonic() - ready, 3)
                return None

    def fail(
        self, status: str, why: str, secondary: str | None, code: StopReason | None, host: str | None
    ) -> None:
        """Report why this host ends; all hosts are stopped.

        Args:
            secondary: SageMaker's secondary status, if it differs.
            code: why the agent ends it, if it does.
            host: this host; `None` if the reason concerns all of them.
        """
        self._reported = True
        code_name = None if code is None else code.value
        failure = Failure(time.time(), why, host=host, status=status, secondary=secondary, code=code_name)
        self._link.report(Kind.FAILED, failure)

    def handle(self, script: RunningScript) -> None:
        """Handle what the other hosts have caused while the script runs."""
        while (event := self._link.take()) is not None:
            if event.kind is Kind.GATHER:
                for failure in script.known_failures():
                    self._link.report(Kind.FAILED, failure)
                self._link.report(Kind.GATHERED)
            elif event.kind is Kind.PRINT_STACKS:
                script.print_stacks()
                self._link.report(Kind.STACKS_PRINTED)
            else:
                self._note(event)
                if event.failure is not None:
                    script.stop_with_others(event.failure)

    def end(self, failures: list[Failure], host: str, signals: StopSignals) -> Failure | None:
        """Report that the script of this host has ended, and wait for all other hosts.

        Args:
            failures: why it failed; not reported if this host has reported before why it ends.

        Returns:
            Why all hosts were stopped, or `None` if all have ended by themselves.
        """
        if self.decision is None and not self._reported:
            for failure in failures:
                self._link.report(Kind.FAILED, failure)
        self._link.report(Kind.ENDED)
        ended = time.monotonic()
        while not self._finished:
            ready, _, _ = select.select([self._link, signals], [], [])
            if signals in ready:
                while (request := signals.take()) is not None:
                    if request is StopRequest.AT_ONCE:
                        return self.decision
                    self.fail(states.STOPPED, "stopped on request", None, None, host)
            while (event := self._link.take()) is not None:
                self._note(event)
                if event.kind is Kind.GATHER:
                    self._link.report(Kind.GATHERED)
                elif event.kind is Kind.PRINT_STACKS:
                    self._link.report(Kind.STACKS_PRINTED)
        self._link.close()
        if self.decision is None:
            self.waits["end_wait_s"] = round(time.monotonic() - ended, 3)
        return self.decision

    def _next_event(self) -> Event:
        while True:
            select.select([self._link], [], [])
            if (event := self._link.take()) is not None:
                self._note(event)
                return event

    def _note(self, event: Event) -> None:
        self._finished |= event.kind is Kind.FINISH
        if event.kind is Kind.STOP:
            self.decision = event.failure


def join_cluster(job: AgentJob, idle: Callable[[], float | None]) -> Session:
    """Start to keep contact with the other hosts; call it after the last fork, because it starts a thread.

    Args:
        job: the job; the first of its hosts, in the order of their names, is the coordinator.
        idle: returns the seconds since the script of this host made progress, or `None` if it is not running.

    Raises:
        PortInUse: the coordinator cannot listen on the job's port.
        OSError: it cannot listen on the job's address.
    """
    hosts = tuple(sorted(job.hosts))
    first = hosts[0]
    timing = Timing.of(job)
    link: Link
    if job.current_host == first:
        # Its name may be one that only the other hosts resolve: it listens on all addresses, unless it is given one.
        address = job.addresses.get(first, "")
        link = Coordinator(first, hosts, job.cluster_key, address, job.cluster_port, timing, idle)
    else:
        address = job.addresses.get(first, first)
        link = Member(job.current_host, first, job.cluster_key, address, job.cluster_port, timing, idle)
    link.start()
    return Session(link)
