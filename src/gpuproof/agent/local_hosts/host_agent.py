"""The agent of one host on this machine: a process in the host's network that ends with the supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from typing import Any

from gpuproof.agent.job import VERSION, AgentJob, ProcessingOutput
from gpuproof.agent.local_hosts.network import LocalNetwork
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import ENDED, FAILED, IN_PROGRESS, RunState, read_state
from gpuproof.agent.state import VERSION as STATE_VERSION
from gpuproof.util.atomic import write_json
from gpuproof.util.process_guard import STOP_SIGNALS
from gpuproof.util.process_tree import die_with_parent

_RENDEZVOUS_SECONDS = 120.0
"""Within which all hosts have to start: they do at the same time, on one machine that may be busy."""


class HostAgent:
    """The agent of one host.

    Args:
        gpus: the host's GPUs, as entries of `CUDA_VISIBLE_DEVICES`; `None` if this machine has none.
    """

    def __init__(
        self, run: RunPaths, job: AgentJob, host: str, network: LocalNetwork, gpus: tuple[str, ...] | None
    ) -> None:
        self.host = host
        self.paths = run.host(host)
        self._supervisor = os.getpid()
        self.exited = False
        """Whether its process has ended."""
        self._run = run
        self._network = network
        self._job = _host_job(job, host, network, gpus)
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: tuple[int, int] | None = None
        self._state: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """Its process id; 0 before it was started."""
        return self._process.pid if self._process is not None else 0

    def prepare(self) -> None:
        """Write the files that the agent starts with; its source tree is in place."""
        write_json(self.paths.job, {"version": VERSION, **asdict(self._job)})
        # It has the secret of the hosts' agents.
        self.paths.job.chmod(0o600)
        write_json(
            self.paths.run,
            {
                "version": STATE_VERSION,
                "id": self._job.run_id,
                "host": self.host,
                "status": IN_PROGRESS,
                "secondary_status": "Starting",
                "created": time.time(),
            },
        )

    def start(self, lock: int) -> None:
        """Start the process.

        Args:
            lock: descriptor of the run's lock, which the process and its reaper hold, too.

        Raises:
            OSError: it could not be started.
        """
        environment = {**os.environ, **self._network.environment}
        with self.paths.agent_log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        str(self._run.agent),
                        "--host",
                        str(self._run.root),
                        self.host,
                        "--lock-fd",
                        str(lock),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock,),
                    start_new_session=True,
                    cwd=self.paths.root,
                    env=environment,
                    # The supervisor has one thread.
                    preexec_fn=self._enter,  # noqa: PLW1509
                )
            except subprocess.SubprocessError as error:
                raise OSError(f"the agent of {self.host} could not join its network") from error

    def signal(self, number: int) -> None:
        """Send a signal to the agent, if it is running."""
        if self._process is None or self.exited:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def state(self) -> dict[str, Any]:
        """The host's state; read from the file only if it has changed."""
        with contextlib.suppress(OSError):
            status = self.paths.run.stat()
            seen = (status.st_ino, status.st_mtime_ns)
            if seen != self._seen:
                self._state = read_state(self.paths.run) or self._state
                self._seen = seen
        return self._state

    def set_exited(self, status: int) -> None:
        """Record that the process has ended; if the host's state does not say how the run ended, that it failed.

        Args:
            status: the wait status of the process.
        """
        self.exited = True
        if self._process is not None:
            self._process.returncode = (
                os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            )
        if self.state().get("status") in ENDED:
            return
        state = RunState(self.paths.run)
        state.update(
            status=FAILED,
            secondary_status=FAILED,
            failure_reason=self._why_exited(),
            ended=time.time(),
        )
        state.release_reserve()

    def _why_exited(self) -> str:
        if self.state().get("agent_pid") is not None:
            return f"the agent of {self.host} was killed, and the script with it"
        lines = self.paths.agent_log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
        return f"the agent of {self.host} did not start: {last} (see {self.paths.agent_log})"

    def _enter(self) -> None:
        # A stop request that comes before the agent handles signals waits until then.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        self._network.join(self.host)
        # After joining: a change of credentials, as with a user namespace, resets it.
        die_with_parent()
        if os.getppid() != self._supervisor:
            os._exit(1)  # the supervisor was killed before


def _host_job(job: AgentJob, host: str, network: LocalNetwork, gpus: tuple[str, ...] | None) -> AgentJob:
    """The job of one host; its results are delivered by the supervisor, for all hosts together."""
    return replace(
        job,
        current_host=host,
        addresses=dict(network.addresses) if network.shared else {},
        shared_network=network.shared,
        cluster_port=network.cluster_port or job.cluster_port,
        rendezvous_timeout=_RENDEZVOUS_SECONDS,
        output=None,
        outputs=tuple(ProcessingOutput(output.target) for output in job.outputs),
        visible_devices=None if gpus is None else ",".join(gpus),
    )
