"""`python gpuproof-agent.pyz RUN_FOLDER [--lock-fd N]`: run the job in a run folder.

`--hosts RUN_FOLDER [--lock-fd N]` runs it on several hosts of this machine: it starts an agent for each of them with
`--host RUN_FOLDER NAME --lock-fd N`. `--container FOLDER` and `--toolkit FOLDER` run a job as the entry point of a container.
`--in-host ENTRY COMMAND …` executes a command on a host of a network that `gpuproof.agent.hosts` created. A launcher starts the
programs behind `--parameter-server` and `--serve-parameters`; see `gpuproof.agent.launch.server_host`.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from gpuproof.agent import state as states
from gpuproof.agent.environments.environment import LocalEnvironment, RunEnvironment
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import ContainerPaths, RunPaths
from gpuproof.agent.runner import Runner
from gpuproof.agent.state import RunState
from gpuproof.util.process_tree import adopt_orphans, end_descendants

_PARAMETER_SERVERS = ("--parameter-server", "--serve-parameters")
_USAGE = (
    "usage: gpuproof-agent RUN_FOLDER [--lock-fd N] | --hosts RUN_FOLDER [--lock-fd N] | "
    "--host RUN_FOLDER NAME --lock-fd N | --container FOLDER | --toolkit FOLDER | --in-host ENTRY COMMAND …"
)

_ALL = "*"


def main(argv: list[str] | None = None) -> int:
    """The agent's entry point; returns the script's exit code."""
    words = sys.argv[1:] if argv is None else argv
    if len(words) == 2 and words[0] in ("--container", "--toolkit"):
        return _run_in_container(*words)
    if len(words) > 2 and words[0] == "--in-host":
        from gpuproof.agent.hosts.host_entry import run_on_host  # runs of one host do without

        return run_on_host(words[1], words[2:])
    if words and words[0] in _PARAMETER_SERVERS:
        return _run_parameter_server(*words)
    try:
        folder, lock_fd, host = _parse(words)
    except ValueError:
        print(_USAGE, file=sys.stderr)
        return 2
    run = RunPaths(Path(folder).absolute())
    paths = run.host(host) if host not in (None, _ALL) else run
    lock = _hold_lock(run, lock_fd)
    if lock is None:
        print(f"gpuproof-agent: {paths.root} is being run by another agent", file=sys.stderr)
        return 1
    adopt_orphans()
    state = RunState(paths.run)
    try:
        job = AgentJob.read(paths.job)
        if host == _ALL:
            from gpuproof.agent.local_hosts.supervisor import HostSupervisor  # a job with one host needs none

            return HostSupervisor(paths, job, state, lock).run()
        return _run(LocalEnvironment(paths, job, state), job, state)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the run must not stay in progress
        import traceback  # costs the agent's start 2 ms and is hardly ever needed

        traceback.print_exc()
        state.update(
            status=states.FAILED,
            secondary_status=states.FAILED,
            failure_reason=f"the agent itself failed: {type(error).__name__}: {error} (see {paths.agent_log.name})",
            ended=time.time(),
        )
        return 1
    finally:
        end_descendants()


def _run(environment: RunEnvironment, job: AgentJob, state: RunState) -> int:
    return Runner(environment, job, state).run()


def _run_in_container(option: str, folder: str) -> int:
    paths = ContainerPaths(Path(folder).absolute())
    # Imported here: a local run needs neither.
    if option == "--container":
        from gpuproof.agent.environments.sagemaker_container import run_container_job

        return run_container_job(paths, _run)
    from gpuproof.agent.environments.training_toolkit import run_toolkit_job

    return run_toolkit_job(paths, _run)


def _run_parameter_server(option: str, config: str, *command: str) -> int:
    # Imported here: only one launcher starts these programs.
    from gpuproof.agent.launch.server_host import run_with_server, serve_parameters

    return serve_parameters(config) if option == "--serve-parameters" else run_with_server(config, command)


def _parse(words: list[str]) -> tuple[str, int | None, str | None]:
    """The run's folder, the descriptor of its lock, and the host: one, `_ALL`, or `None` for a job with one host."""
    # By hand: argparse costs the agent's start as much as all of this module.
    lock: int | None = None
    if words[-2:-1] == ["--lock-fd"]:
        lock = int(words[-1])
        words = words[:-2]
    if len(words) == 3 and words[0] == "--host":
        return words[1], lock, words[2]
    if len(words) == 2 and words[0] == "--hosts":
        return words[1], lock, _ALL
    if len(words) == 1 and not words[0].startswith("-"):
        return words[0], lock, None
    raise ValueError


def _hold_lock(paths: RunPaths, inherited: int | None) -> int | None:
    """Hold the run's lock while this process, or one that it forks, is alive."""
    if inherited is not None:
        # It came through exec; from here on only forks inherit it, never the script.
        os.set_inheritable(inherited, False)
        return inherited
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return lock
