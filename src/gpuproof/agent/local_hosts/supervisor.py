"""Supervises the agents of a run's hosts: starts them, passes stop requests on, merges states and results."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Any

from gpuproof.agent import state as states
from gpuproof.agent.isolation.isolation import NAMESPACE
from gpuproof.agent.job import AgentJob
from gpuproof.agent.local_hosts.gpus import distribute_gpus, distribution_note, visible_gpus
from gpuproof.agent.local_hosts.host_agent import HostAgent
from gpuproof.agent.local_hosts.merge import (
    merge_empty_models,
    merge_end,
    merge_hosts,
    merge_notes,
    merge_progress,
)
from gpuproof.agent.local_hosts.network import LocalNetwork, create_network
from gpuproof.agent.local_hosts.results import merge_results
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.signals import StopRequest, StopRequested, StopSignals
from gpuproof.agent.state import RunState, read_state
from gpuproof.agent.verdict import HostReport
from gpuproof.agent.verdict import merge_hosts as merge_verdicts
from gpuproof.gpu.nvml import count_gpus
from gpuproof.util.file_watch import FileWatch
from gpuproof.util.process_tree import end_descendants

_OTHERS_GRACE_SECONDS = 5.0
"""How long the other hosts may take to end by themselves after one has not completed: their agents agree on the cause."""


class HostSupervisor:
    """Runs one job on several hosts of this machine.

    Args:
        state: the run's state, updated as those of the hosts change.
    """

    def __init__(self, paths: RunPaths, job: AgentJob, state: RunState, lock: int) -> None:
        self._paths = paths
        self._job = job
        self._state = state
        self._lock = lock
        self._signals = StopSignals()
        self._notes: list[str] = list(state["notes"] or ())
        self._agents: list[HostAgent] = []
        self._requested = False
        self._stop_others_at: float | None = None
        self._written: dict[str, Any] = {}

    def run(self) -> int:
        """Run the job and return its exit code."""
        self._signals.install()
        self._state.update(
            status=states.IN_PROGRESS, secondary_status="Starting", agent_pid=os.getpid(), started=time.time()
        )
        network: LocalNetwork | None = None
        try:
            with self._signals.interrupting():
                network = create_network(
                    self._job.hosts,
                    {**os.environ, **self._job.environment},
                    namespaces=self._job.isolation in ("auto", NAMESPACE),
                )
            return self._run_hosts(network)
        except StopRequested:
            return self._fail(states.STOPPED, "stopped before the hosts were started")
        except OSError as error:
            return self._fail(states.FAILED, f"the hosts could not be started: {error.strerror or error}")
        finally:
            end_descendants()
            if network is not None:
                network.close()

    def _run_hosts(self, network: LocalNetwork) -> int:
        if network.note:
            self._notes.append(network.note)
        gpus = self._host_gpus()
        self._agents = [
            HostAgent(self._paths, self._job, host, network, gpus.get(host)) for host in self._job.hosts
        ]
        for agent in self._agents:
            agent.prepare()
        with FileWatch([agent.paths.root for agent in self._agents]) as changes:
            for agent in self._agents:
                agent.start(self._lock)
            self._wait_for_agents(changes)
        # What a killed agent has left behind, and the network, end before the run does.
        end_descendants()
        network.close()
        return self._finish()

    def _host_gpus(self) -> dict[str, tuple[str, ...]]:
        setting = self._job.environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
        count = count_gpus()
        gpus = visible_gpus(count, setting)
        if note := distribution_note(gpus, self._job.hosts):
            self._notes.append(note)
        return distribute_gpus(gpus, self._job.hosts) if count else {}

    def _wait_for_agents(self, changes: FileWatch) -> None:
        self._show_progress()
        while not all(agent.exited for agent in self._agents):
            select.select([self._signals, *changes.files], [], [], self._timeout(changes))
            changes.clear()
            self._collect_ended()
            self._handle_stop_requests()
            self._stop_others()
            self._show_progress()

    def _timeout(self, changes: FileWatch) -> float | None:
        if self._stop_others_at is not None:
            return max(0.0, self._stop_others_at - time.monotonic())
        return changes.timeout

    def _collect_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                # The supervisor is the parent of everything that a killed agent leaves behind, too.
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for agent in self._agents:
                    if agent.pid == pid:
                        agent.set_exited(status)
                        self._note_exit(agent)

    def _note_exit(self, agent: HostAgent) -> None:
        if agent.state().get("status") == states.COMPLETED or self._requested:
            return
        if self._stop_others_at is None:
            self._stop_others_at = time.monotonic() + _OTHERS_GRACE_SECONDS

    def _handle_stop_requests(self) -> None:
        while (request := self._signals.take()) is not None:
            self._requested = True
            number = signal.SIGQUIT if request is StopRequest.AT_ONCE else signal.SIGTERM
            for agent in self._agents:
                agent.signal(number)

    def _stop_others(self) -> None:
        """Stop the hosts that still run some time after another one has failed, as SageMaker does."""
        if self._stop_others_at is None or time.monotonic() < self._stop_others_at:
            return
        self._stop_others_at = None
        self._requested = True
        for agent in self._agents:
            agent.signal(signal.SIGTERM)

    def _show_progress(self) -> None:
        merged = merge_progress(self._host_states())
        if merged != self._written:
            self._written = merged
            self._state.update(**merged, notes=[*self._notes, *self._host_notes()])

    def _finish(self) -> int:
        hosts = self._host_states()
        end = merge_end(hosts)
        self._state.update(
            status=states.STOPPING if self._requested else states.IN_PROGRESS,
            secondary_status="Uploading",
            hosts=merge_hosts(hosts),
        )
        results = merge_results(
            self._job, self._paths, {host: state.get("artifacts", {}) for host, state in hosts.items()}
        )
        if results.problem is not None and end["status"] == states.COMPLETED:
            end |= {
                "status": states.FAILED,
                "secondary_status": states.FAILED,
                "failure_reason": results.problem,
            }
        verdict = self._merge_verdicts(hosts)
        notes = [*self._notes, *self._host_notes()]
        if note := merge_empty_models(hosts):
            notes.append(note)
        self._state.update(
            **{**end, **_judged(verdict)},
            notes=notes,
            artifacts=results.artifacts,
            ended=time.time(),
        )
        self._state.release_reserve()
        failed = end["status"] == states.FAILED or bool(end.get("stopped_for_unused_gpu"))
        return int(end["exit_code"] or 0) or int(failed)

    def _merge_verdicts(self, hosts: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
        reports = {
            agent.host: HostReport(read_state(agent.paths.verdict), hosts[agent.host])
            for agent in self._agents
        }
        verdict = merge_verdicts(self._job.hosts, reports)
        if verdict is not None:
            verdict["cpu_count"] = os.cpu_count()  # all hosts share this machine's
            self._state.write_with_reserve(self._paths.verdict, verdict)
        return verdict

    def _fail(self, status: str, why: str) -> int:
        for agent in self._agents:
            agent.signal(signal.SIGKILL)
        self._state.update(
            status=status, secondary_status=status, failure_reason=why, ended=time.time(), notes=self._notes
        )
        self._state.release_reserve()
        return 1

    def _host_states(self) -> dict[str, dict[str, Any]]:
        return {agent.host: agent.state() for agent in self._agents}

    def _host_notes(self) -> list[str]:
        return merge_notes({host: state.get("notes", ()) for host, state in self._host_states().items()})


def _judged(verdict: dict[str, Any] | None) -> dict[str, Any]:
    """What the run's state has of its verdict."""
    if verdict is None:
        return {}
    return {"verdict": verdict["outcome"], "gpu_requirement_met": verdict["gpu_requirement_met"]}
