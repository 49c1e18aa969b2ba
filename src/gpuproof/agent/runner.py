"""Runs one job from the first file to the last: preparation, the script, deadlines, results, verdict."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent import state as states
from gpuproof.agent.artifacts.stray_models import snapshot
from gpuproof.agent.contract import Machine, code_folder
from gpuproof.agent.environments.environment import NotStarted, RunEnvironment
from gpuproof.agent.failure import StopReason, exit_code, failure_text, reason
from gpuproof.agent.isolation.isolation import Isolation, IsolationUnavailable, isolate
from gpuproof.agent.isolation.reaper import Launch, ReaperLost
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch import framework_variables, is_package, make_executable, plan_launch, shown_command
from gpuproof.agent.outcome import Outcome
from gpuproof.agent.output import OutputLog
from gpuproof.agent.signals import StopRequested, StopSignals
from gpuproof.agent.state import RunState
from gpuproof.agent.supervisor import REAPER_KILLED, STOPPED_UNUSED, Supervisor
from gpuproof.gpu.nvml import library_present
from gpuproof.util.cgroup import end_group
from gpuproof.util.installed_frameworks import installed_frameworks
from gpuproof.util.process_tree import end_descendants

if TYPE_CHECKING:
    from gpuproof.agent.cluster.session import Session
    from gpuproof.agent.monitor import Monitor
    from gpuproof.agent.notify.notifier import Notifier
    from gpuproof.agent.ranks.host_failure import Failure
    from gpuproof.agent.sinks.export import Export
    from gpuproof.agent.stall.progress import Progress
    from gpuproof.agent.stall.watch import StallWatch
    from gpuproof.gpu.telemetry import Sample


class Runner:
    """Runs one job.

    Args:
        state: the run's state, updated as it changes.
    """

    def __init__(self, environment: RunEnvironment, job: AgentJob, state: RunState) -> None:
        self._environment = environment
        self._paths = environment.paths
        self._job = job
        self._state = state
        self._signals = StopSignals()
        self._notes: list[str] = list(state["notes"] or ())
        self._outcome = Outcome()
        self._stall: StallWatch | None = None
        self._session: Session | None = None
        self._script_runs = False
        self._export: Export | None = None
        self._notifier: Notifier | None = None
        if job.notify is not None:
            from gpuproof.agent.notify.notifier import Notifier  # most jobs have no notifications

            self._notifier = Notifier.of(job, job.notify)

    def run(self) -> int:
        """Run the job and return the script's exit code.

        The exit code is 1 if the script was never started, and if the script exits with 0 but the run failed or was
        ended because no GPU was used.
        """
        self._signals.install()
        self._state.update(
            status=states.IN_PROGRESS, secondary_status="Starting", agent_pid=os.getpid(), started=time.time()
        )
        try:
            with self._signals.interrupting():
                isolation = self._prepare()
        except StopRequested:
            return self._fail_to_start(states.STOPPED, "stopped before the script was started")
        except (NotStarted, IsolationUnavailable, ReaperLost, OSError) as error:
            return self._fail_to_start(states.FAILED, str(error) or type(error).__name__)
        return self._run_script(isolation)

    def _prepare(self) -> Isolation:
        self._environment.prepare()
        # The reaper is forked before any thread is started.
        isolation = isolate(self._job, self._paths)
        self._join_others()
        self._state.update(isolation=isolation.mode)
        if isolation.note:
            self._notes.append(isolation.note)
        requirements = self._paths.ml / code_folder(self._job) / "requirements.txt"
        if requirements.is_file():
            self._install(requirements)
        if self._job.machine is not None and self._job.machine.jupyter:
            self._install_jupyter()
        if is_package(self._job, self._paths):
            self._install_package(requirements.parent)
        make_executable(self._job, self._paths)
        if self._session is not None and (failure := self._session.wait_for_start()) is not None:
            raise NotStarted(failure.text)
        return isolation

    def _join_others(self) -> None:
        """Start to keep contact with the job's other hosts, if there are any."""
        if len(self._job.hosts) < 2 or not self._job.cluster_key or self._session is not None:
            return
        from gpuproof.agent.cluster.coordinator import PortInUse  # most jobs have one host
        from gpuproof.agent.cluster.session import join_cluster

        try:
            self._session = join_cluster(self._job, self._idle_seconds)
        except PortInUse as error:
            raise NotStarted(str(error)) from error

    def _idle_seconds(self) -> float | None:
        return self._stall.progress.idle() if self._stall is not None and self._script_runs else None

    def _install(self, requirements: Path) -> None:
        # Imported only with a requirements.txt, which most scripts lack: each import delays the script.
        from gpuproof.agent.requirements.install import install_requirements
        from gpuproof.agent.requirements.pip_plan import RequirementsConflict, RequirementsFailed

        self._state.update(secondary_status="Downloading")
        try:
            install_requirements(self._job.python, requirements, self._paths.packages, self._environment.sink)
        except (RequirementsConflict, RequirementsFailed) as error:
            raise NotStarted(str(error)) from error

    def _install_jupyter(self) -> None:
        from gpuproof.agent.machine.launch import install_jupyter  # most jobs have a script
        from gpuproof.agent.requirements.pip_plan import RequirementsConflict, RequirementsFailed

        try:
            install_jupyter(self._job.python, self._paths.packages, self._environment.sink)
        except (RequirementsConflict, RequirementsFailed) as error:
            raise NotStarted(f"JupyterLab could not be installed: {error}") from error

    def _install_package(self, folder: Path) -> None:
        from gpuproof.agent.requirements.install import install_package  # most sources are no package
        from gpuproof.agent.requirements.pip_plan import RequirementsConflict, RequirementsFailed

        self._state.update(secondary_status="Downloading")
        try:
            install_package(self._job.python, folder, self._paths.packages, self._environment.sink)
        except (RequirementsConflict, RequirementsFailed) as error:
            raise NotStarted(f"setup.py could not be installed: {error}") from error

    def _run_script(self, isolation: Isolation) -> int:
        machine = self._environment.machine()
        self._report_driver(machine)
        try:
            launch = plan_launch(
                self._job, self._paths, isolation, machine, self._environment.inherited_variables()
            )
        except (NotStarted, OSError) as error:
            return self._fail_to_start(states.FAILED, str(error))
        code_before = snapshot(self._paths.ml / code_folder(self._job))
        if self._job.stall_timeout is not None:
            from gpuproof.agent.stall.watch import StallWatch  # most jobs have no such limit

            self._stall = StallWatch.of(self._job, self._paths, self._environment.sink)
        progress = None if self._stall is None else self._stall.progress
        output = OutputLog(isolation.reaper.output, self._environment.sink, progress and progress.note)
        monitor = None
        if library_present():
            # Without a driver there is nothing to read, and each import would delay the script.
            monitor = self._new_monitor(isolation, launch, progress)
            monitor.read_first()
        try:
            started = self._start_script(isolation, launch, machine)
        except (NotStarted, ReaperLost) as error:
            if monitor is not None:
                monitor.stop()
            return self._fail_to_start(states.FAILED, str(error) or REAPER_KILLED)
        output.start()
        supervisor = Supervisor(
            self._job,
            self._state,
            self._signals,
            self._outcome,
            self._notes,
            isolation.reaper,
            self._paths.ranks,
            self._stall,
            self._session,
            self._notifier,
        )
        supervisor.script_started(started)
        self._script_runs = True
        # From here on, work overlaps with the script's own start; before, each import would delay the script.
        from gpuproof.agent.artifacts.results import collect_results
        from gpuproof.agent.sinks.export import Export

        monitor = monitor or self._new_monitor(isolation, launch, progress)
        export = self._export = Export.of(
            self._job, self._paths, launch.environment, self._state["script_started"]
        )
        monitor.start()
        self._state.update(frameworks=installed_frameworks(self._job.python))
        code = supervisor.wait(monitor)
        monitor.record_exit(code, is_failure=code != 0 and self._outcome.status != states.STOPPED)
        self._script_runs = False
        isolation.reaper.close()
        # Nothing is left to kill, unless the reaper itself was killed.
        end_descendants(spared=export.pids)
        if group := self._state["control_group"]:
            end_group(Path(group))
        telemetry = monitor.stop()
        output.join()
        agents_reason = self._outcome.why
        rank = self._failed_rank() if code != 0 else None
        self._settle_exit(code, output, rank)
        text = agents_reason or failure_text(
            shown_command(launch.command),
            code,
            output.tail(),
            rank.text if rank else None,
            rank.traceback if rank else "",
        )
        if self._session is not None:
            failures = [] if self._outcome.completed else self._script_failures(code, output)
            if self._follow_others(failures):
                ends_here = not agents_reason and self._session.decided_by(self._job.current_host)
                agents_reason = self._outcome.why
                text = f"{agents_reason}\n{text}" if ends_here else str(agents_reason)
        if not self._outcome.completed:
            self._write_failure(text, by_agent=bool(agents_reason))
        waits = {} if self._session is None else self._session.waits
        self._state.update(
            secondary_status="Uploading", exit_code=exit_code(code), script_ended=time.time(), **waits
        )
        verdict = monitor.verdict(telemetry, self._paths.throughput, self._paths.steps, machine.driver)
        # That of a script that has failed says little: it may have failed before it used anything.
        if self._notifier is not None and self._outcome.completed:
            self._notifier.send_verdict(verdict.outcome, verdict.reason)
        # Before the artifacts are packed: some sinks write files next to the script's.
        locations, notes = export.report(verdict.to_json(), self._outcome.status, exit_code(code))
        self._notes += notes
        self._state.update(sinks=locations)
        results = collect_results(
            self._job,
            self._paths,
            code_before,
            succeeded=self._outcome.completed,
            packs=self._environment.packs,
        )
        self._notes += results.notes
        if self._job.machine is not None:
            from gpuproof.agent.machine.launch import end_reason  # most jobs have a script

            if (why := end_reason(self._paths.ml)) is not None:
                self._notes.append(why)
        if results.empty_model is not None and len(self._job.hosts) > 1:
            self._state.update(empty_model=results.empty_model)
        elif results.empty_model is not None:
            self._notes.append(results.empty_model)
        if results.problem is not None:
            self._outcome.record(states.FAILED, results.problem)
        self._environment.store_verdict(verdict.to_json())
        self._finish(
            artifacts={
                name: {"bytes": result.bytes, "files": result.files, "sha256": result.sha256}
                for name, result in results.artifacts.items()
            },
            verdict=verdict.outcome,
            gpu_requirement_met=verdict.gpu_requirement_met,
        )
        return exit_code(code) or int(
            self._outcome.status == states.FAILED or bool(self._state[STOPPED_UNUSED])
        )

    def _report_driver(self, machine: Machine) -> None:
        """Write to the log and the notes which driver library the script loads, if that was a choice."""
        if machine.driver is None or machine.driver.note is None:
            return
        self._notes.append(machine.driver.note)
        self._environment.sink.write(f"gpuproof: {machine.driver.note}\n".encode())

    def _new_monitor(self, isolation: Isolation, launch: Launch, progress: Progress | None) -> Monitor:
        from gpuproof.agent.monitor import (
            Monitor,
            MonitorSettings,
        )  # imported only when needed: the script waits, or runs already

        return Monitor(
            MonitorSettings.of_job(self._job),
            isolation.reaper.script_parent,
            launch.environment,
            self._environment.show_sample,
            lambda sample: self._pass_on(sample, progress),
            steps=self._paths.steps,
        )

    def _pass_on(self, sample: Sample, progress: Progress | None) -> None:
        if progress is not None:
            progress.on_sample(sample)
        if self._export is not None:
            self._export.on_sample(sample)

    def _start_script(self, isolation: Isolation, launch: Launch, machine: Machine) -> float:
        isolation.reaper.launch(launch)
        answer = isolation.reaper.message()
        if "refused" in answer:
            raise NotStarted(f"the script could not be started: {answer['refused']}")
        started = time.monotonic()
        # Written before the script's first line is passed on; meanwhile the pipe holds it.
        self._state.update(
            secondary_status="Training" if self._job.kind == "training" else "Processing",
            script_started=time.time(),
            script_pid=answer["started"],
            command=launch.command,
            variables=framework_variables(launch.environment),
            gpus=machine.gpus,
            notes=self._notes,
        )
        return started

    def _failed_rank(self) -> Failure | None:
        """The failure of this host's ranks that caused the others, if a launcher started the script."""
        if not self._paths.ranks.is_dir():
            return None
        from gpuproof.agent.ranks.host_failure import first_failure  # most jobs have no ranks
        from gpuproof.agent.ranks.script_failure import rank_failures

        failures = rank_failures(self._job, self._paths.ranks)
        return first_failure(failures) if failures else None

    def _settle_exit(self, code: int, output: OutputLog, rank: Failure | None) -> None:
        sink = self._environment.sink
        if sink.lost_bytes:
            self._notes.append(
                f"{sink.lost_bytes:,} bytes of the script's output were lost: {sink.lost_reason}"
            )
        if code != 0 and self._outcome.completed:
            why = rank.text if rank else reason(self._job.entry_point, code, output.tail())
            self._outcome.record(states.FAILED, why)
            if rank is not None:
                self._outcome.name_first(rank)

    def _script_failures(self, code: int, output: OutputLog) -> list[Failure]:
        from gpuproof.agent.ranks.script_failure import exit_failure, rank_failures  # only with several hosts

        found = rank_failures(self._job, self._paths.ranks)
        if found or code == 0:
            return found
        failure = self._paths.failure(self._job.kind)
        return [exit_failure(self._job, code, output.tail(), failure)]

    def _follow_others(self, failures: list[Failure]) -> bool:
        """Wait for the other hosts, and end as they do; return whether anything has ended all of them."""
        if self._session is None:
            return False
        decision = self._session.end(failures, self._job.current_host, self._signals)
        if decision is None:
            return False
        self._outcome.follow(decision)
        if self._outcome.code is StopReason.GPU_UNUSED:
            self._state.update(**{STOPPED_UNUSED: True})
        return True

    def _write_failure(self, text: str, *, by_agent: bool) -> None:
        failure = self._paths.failure(self._job.kind)
        try:
            self._outcome.write_failure(failure, text, by_agent=by_agent)
        except OSError as error:
            self._notes.append(f"{failure.name} could not be written: {error.strerror}")

    def _fail_to_start(self, status: str, why: str) -> int:
        self._outcome.record(status, why)
        self._end_others(status, why)
        self._write_failure(self._outcome.why or why, by_agent=True)
        self._finish()
        return 1

    def _end_others(self, status: str, why: str) -> None:
        """Tell the other hosts that this one does not start, and end as they do."""
        with contextlib.suppress(NotStarted, OSError):
            self._join_others()
        if self._session is None:
            return
        if self._session.decision is None:
            self._session.fail(status, why, None, None, self._job.current_host)
        self._follow_others([])

    def _finish(self, **results: Any) -> None:
        outcome = self._outcome
        if self._notifier is not None:
            self._notes += self._notifier.end(outcome.status, outcome.why, outcome.code)
        first = {
            "failed_host": outcome.failed_host,
            "failed_rank": outcome.failed_rank,
            "failure_cause": outcome.failure_cause,
        }
        self._state.update(
            **{name: value for name, value in first.items() if value is not None},
            status=self._outcome.status,
            secondary_status=self._outcome.secondary or self._outcome.status,
            failure_reason=self._outcome.why,
            ended=time.time(),
            notes=self._notes,
            **results,
        )
        self._environment.finish()
