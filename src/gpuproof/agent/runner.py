"""Runs one job from the first file to the last: preparation, the script, deadlines, results, verdict."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent import state as states
from gpuproof.agent.artifacts.stray_models import snapshot
from gpuproof.agent.contract import Machine, code_folder
from gpuproof.agent.deadlines import Deadline, Deadlines
from gpuproof.agent.environments.environment import NotStarted, RunEnvironment
from gpuproof.agent.failure import LIMIT, StopReason, exit_code, failure_text, reason, with_code
from gpuproof.agent.isolation.isolation import Isolation, IsolationUnavailable, isolate
from gpuproof.agent.isolation.reaper import Launch, ReaperLost
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch import is_package, make_executable, plan_launch
from gpuproof.agent.output import OutputLog
from gpuproof.agent.signals import StopRequest, StopRequested, StopSignals
from gpuproof.agent.state import RunState
from gpuproof.util.cgroup import end_group
from gpuproof.util.installed_frameworks import installed_frameworks
from gpuproof.util.process_tree import collect_ended, end_descendants

if TYPE_CHECKING:
    from gpuproof.agent.monitor import Monitor

_UNUSED = "stopped_for_unused_gpu"
_REAPER_KILLED = "the agent's reaper process, which runs the script, was killed"


class Runner:
    """Runs one job.

    Args:
        environment: the environment of the run.
        job: the job.
        state: the run's state, updated as it changes.
    """

    def __init__(self, environment: RunEnvironment, job: AgentJob, state: RunState) -> None:
        self._environment = environment
        self._paths = environment.paths
        self._job = job
        self._state = state
        self._signals = StopSignals()
        self._deadlines = Deadlines()
        self._notes: list[str] = list(state["notes"] or ())
        self._status = states.COMPLETED
        self._secondary: str | None = None
        self._why: str | None = None
        self._code: StopReason | None = None
        self._stopping = False

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
        self._state.update(isolation=isolation.mode)
        if isolation.note:
            self._notes.append(isolation.note)
        requirements = self._paths.ml / code_folder(self._job) / "requirements.txt"
        if requirements.is_file():
            self._install(requirements)
        if is_package(self._job, self._paths):
            self._install_package(requirements.parent)
        make_executable(self._job, self._paths)
        return isolation

    def _install(self, requirements: Path) -> None:
        # Imported only with a requirements.txt, which most scripts lack: each import delays the script.
        from gpuproof.agent.requirements.install import install_requirements
        from gpuproof.agent.requirements.pip_plan import RequirementsConflict, RequirementsFailed

        self._state.update(secondary_status="Downloading")
        try:
            install_requirements(self._job.python, requirements, self._paths.packages, self._environment.sink)
        except (RequirementsConflict, RequirementsFailed) as error:
            raise NotStarted(str(error)) from error

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
        launch = plan_launch(
            self._job, self._paths, isolation, machine, self._environment.inherited_variables()
        )
        code_before = snapshot(self._paths.ml / code_folder(self._job))
        output = OutputLog(isolation.reaper.output, self._environment.sink)
        try:
            self._start_script(isolation, launch, machine)
        except (NotStarted, ReaperLost) as error:
            return self._fail_to_start(states.FAILED, str(error) or _REAPER_KILLED)
        output.start()
        # From here on, work overlaps with the script's own start; before, each import would delay the script.
        from gpuproof.agent.artifacts.results import collect_results
        from gpuproof.agent.monitor import Monitor

        visible = launch.environment.get("CUDA_VISIBLE_DEVICES")
        monitor = Monitor(self._job, isolation.reaper.script_parent, visible, self._environment.show_sample)
        monitor.start()
        self._state.update(frameworks=installed_frameworks(self._job.python))
        code = self._wait_for_script(isolation, monitor)
        isolation.reaper.close()
        # Nothing is left to kill, unless the reaper itself was killed.
        end_descendants()
        if group := self._state["control_group"]:
            end_group(Path(group))
        telemetry = monitor.stop()
        output.join()
        agents_reason = self._why
        self._settle_exit(code, output)
        if self._status != states.COMPLETED:
            text = agents_reason or failure_text(launch.command, code, output.tail())
            self._write_failure(text, by_agent=bool(agents_reason))
        self._state.update(secondary_status="Uploading", exit_code=exit_code(code), script_ended=time.time())
        results = collect_results(
            self._job,
            self._paths,
            code_before,
            succeeded=self._status == states.COMPLETED,
            packs=self._environment.packs,
        )
        self._notes += results.notes
        if results.problem is not None:
            self._set_outcome(states.FAILED, results.problem)
        verdict = monitor.verdict(telemetry)
        self._environment.store_verdict(verdict.to_json())
        self._finish(
            artifacts={
                name: {"bytes": result.bytes, "files": result.files, "sha256": result.sha256}
                for name, result in results.artifacts.items()
            },
            verdict=verdict.outcome,
            gpu_requirement_met=verdict.gpu_requirement_met,
        )
        return exit_code(code) or int(self._status == states.FAILED or bool(self._state[_UNUSED]))

    def _start_script(self, isolation: Isolation, launch: Launch, machine: Machine) -> None:
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
            gpus=machine.gpus,
            notes=self._notes,
        )
        if self._job.max_duration is not None:
            self._deadlines.set(Deadline.MAX_DURATION, started + self._job.max_duration)
        if self._job.if_gpu_unused is not None and self._job.expected_gpus:
            self._deadlines.set(Deadline.GPU_GRACE, started + self._job.if_gpu_unused.grace)

    def _wait_for_script(self, isolation: Isolation, monitor: Monitor) -> int:
        while True:
            ready, _, _ = select.select(
                [isolation.reaper, self._signals], [], [], self._deadlines.wait(time.monotonic())
            )
            if self._signals in ready:
                collect_ended()
                self._handle_stop_requests(isolation)
            for deadline in self._deadlines.due(time.monotonic()):
                self._handle_deadline(deadline, isolation, monitor)
            if isolation.reaper in ready:
                try:
                    message = isolation.reaper.message()
                except ReaperLost:
                    self._set_outcome(states.FAILED, _REAPER_KILLED)
                    return -signal.SIGKILL
                if "ended" in message:
                    return message["ended"]
                if "group" in message:
                    self._state.update(control_group=message["group"])

    def _handle_stop_requests(self, isolation: Isolation) -> None:
        while (request := self._signals.take()) is not None:
            if request is StopRequest.AT_ONCE:
                self._set_outcome(states.STOPPED, "killed on request")
                isolation.reaper.kill()
            else:
                self._stop(isolation, states.STOPPED, "stopped on request")

    def _handle_deadline(self, deadline: Deadline, isolation: Isolation, monitor: Monitor) -> None:
        if deadline is Deadline.STOP_GRACE:
            self._notes.append(
                f"the script did not end within {self._job.stop_grace:g} s of SIGTERM and was killed"
            )
            isolation.reaper.kill()
        elif deadline is Deadline.MAX_DURATION:
            self._stop(
                isolation,
                states.STOPPED,
                f"max_duration of {self._job.max_duration:g} s exceeded",
                secondary="MaxRuntimeExceeded",
            )
        elif deadline is Deadline.GPU_GRACE and monitor.gpu_used() is False:
            self._handle_unused_gpu(isolation)

    def _handle_unused_gpu(self, isolation: Isolation) -> None:
        rule = self._job.if_gpu_unused
        assert rule is not None
        why = f"no GPU did any work in the first {rule.grace:g} s, and the job requires one (if_gpu_unused: {rule.action})"
        if rule.action == "warn":
            self._notes.append(why)
            self._state.update(notes=self._notes)
        else:
            self._state.update(**{_UNUSED: True})
            status = states.STOPPED if rule.action == "stop" else states.FAILED
            self._stop(isolation, status, why, code=StopReason.GPU_UNUSED)

    def _stop(
        self,
        isolation: Isolation,
        status: str,
        why: str,
        *,
        secondary: str | None = None,
        code: StopReason | None = None,
    ) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._set_outcome(status, why, secondary, code)
        # The signal first: writing the state may find the disk full.
        isolation.reaper.signal(signal.SIGTERM)
        self._deadlines.set(Deadline.STOP_GRACE, time.monotonic() + self._job.stop_grace)
        self._state.update(status=states.STOPPING, secondary_status="Stopping")

    def _settle_exit(self, code: int, output: OutputLog) -> None:
        sink = self._environment.sink
        if sink.lost_bytes:
            self._notes.append(
                f"{sink.lost_bytes:,} bytes of the script's output were lost: {sink.lost_reason}"
            )
        if code != 0 and self._status == states.COMPLETED:
            self._set_outcome(states.FAILED, reason(self._job.entry_point, code, output.tail()))

    def _write_failure(self, text: str, *, by_agent: bool) -> None:
        """Write why the run failed to the file that SageMaker reads.

        Args:
            by_agent: whether the text is the agent's own reason for ending the run, which precedes the script's message.
        """
        failure = self._paths.failure(self._job.kind)
        try:
            failure.parent.mkdir(parents=True, exist_ok=True)
            message = (
                failure.read_text(encoding="utf-8", errors="replace")[:LIMIT].strip()
                if failure.exists()
                else ""
            )
            if message:
                # The script's own message takes precedence over its traceback: that is what the file is for.
                self._why = f"{self._why}; it left the message: {message}" if self._why else message
            if message and not by_agent:
                return
            text = self._why if message and self._why else text
            if self._code is not None:
                text = with_code(self._code, text)
            failure.write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            self._notes.append(f"{failure.name} could not be written: {error.strerror}")

    def _fail_to_start(self, status: str, why: str) -> int:
        self._set_outcome(status, why)
        self._write_failure(why, by_agent=True)
        self._finish()
        return 1

    def _set_outcome(
        self, status: str, why: str, secondary: str | None = None, code: StopReason | None = None
    ) -> None:
        """Record the final status; the first status other than Completed wins."""
        if self._status == states.COMPLETED:
            self._status, self._why, self._secondary, self._code = status, why, secondary, code

    def _finish(self, **results: Any) -> None:
        self._state.update(
            status=self._status,
            secondary_status=self._secondary or self._status,
            failure_reason=self._why,
            ended=time.time(),
            notes=self._notes,
            **results,
        )
        self._environment.finish()
