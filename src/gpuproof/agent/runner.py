"""One run from its first file to its last: the order of things in the agent."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.agent import deadlines
from gpuproof.agent import state as states
from gpuproof.agent.artifacts.stray_models import snapshot
from gpuproof.agent.contract import Machine, code_folder
from gpuproof.agent.environments.environment import NotStarted, Venue
from gpuproof.agent.failure import LIMIT, exit_code, failure_text, reason
from gpuproof.agent.isolation.isolation import NoSuchWorld, World, make_world
from gpuproof.agent.isolation.reaper import Launch, ReaperLost
from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch import plan_launch
from gpuproof.agent.output import OutputLog
from gpuproof.agent.signals import AT_ONCE, StopRequested, StopSignals
from gpuproof.agent.state import RunState
from gpuproof.util.installed_frameworks import installed_frameworks
from gpuproof.util.process_tree import collect_ended, end_descendants

if TYPE_CHECKING:
    from gpuproof.agent.monitor import Watcher

_UNUSED = "stopped_for_unused_gpu"


class Run:
    """Carries one job out.

    Args:
        venue: where it takes place.
        job: what to do.
        state: where to keep what becomes of it.
    """

    def __init__(self, venue: Venue, job: AgentJob, state: RunState) -> None:
        self._venue = venue
        self._paths = venue.paths
        self._job = job
        self._state = state
        self._signals = StopSignals()
        self._deadlines = deadlines.Deadlines()
        self._notes: list[str] = list(state["notes"] or ())
        self._ending = states.COMPLETED
        self._secondary: str | None = None
        self._why: str | None = None
        self._stopping = False

    def carry_out(self) -> int:
        """Do it, whatever comes; gives the script's exit code.

        It is 1 where the script was never started, and where the run failed or no GPU was used though the script
        says 0.
        """
        self._signals.install()
        self._state.update(
            status=states.IN_PROGRESS, secondary_status="Starting", agent_pid=os.getpid(), started=time.time()
        )
        try:
            with self._signals.interrupting():
                world = self._prepare()
        except StopRequested:
            return self._never_started(states.STOPPED, "stopped before the script was started")
        except (NotStarted, NoSuchWorld, ReaperLost, OSError) as error:
            return self._never_started(states.FAILED, str(error) or type(error).__name__)
        return self._run_script(world)

    def _prepare(self) -> World:
        self._venue.prepare()
        # The reaper is forked before any thread is started.
        world = make_world(self._job, self._paths)
        self._state.update(isolation=world.isolation)
        if world.note:
            self._notes.append(world.note)
        requirements = self._paths.ml / code_folder(self._job) / "requirements.txt"
        if requirements.is_file():
            self._install(requirements)
        return world

    def _install(self, requirements: Path) -> None:
        # Imported when it is needed: most scripts bring no requirements.txt, and each import delays the script.
        from gpuproof.agent.requirements.install import install_requirements
        from gpuproof.agent.requirements.pip_plan import RequirementsConflict, RequirementsFailed

        self._state.update(secondary_status="Downloading")
        try:
            install_requirements(self._job.python, requirements, self._paths.packages, self._venue.sink)
        except (RequirementsConflict, RequirementsFailed) as error:
            raise NotStarted(str(error)) from error

    def _run_script(self, world: World) -> int:
        machine = self._venue.machine()
        launch = plan_launch(self._job, self._paths, world, machine, self._venue.inherited())
        code_before = snapshot(self._paths.ml / code_folder(self._job))
        output = OutputLog(world.reaper.output, self._venue.sink)
        try:
            self._start_script(world, launch, machine)
        except (NotStarted, ReaperLost) as error:
            return self._never_started(
                states.FAILED, str(error) or "the process that keeps the script was killed"
            )
        output.start()
        # What comes now is done beside the script's own start; before it, each import would delay the script.
        from gpuproof.agent.artifacts.results import hand_over
        from gpuproof.agent.monitor import Watcher

        visible = launch.environment.get("CUDA_VISIBLE_DEVICES")
        watcher = Watcher(self._job, world.reaper.pid, visible, self._venue.show_sample)
        watcher.start()
        self._state.update(frameworks=installed_frameworks(self._job.python))
        code = self._wait_for_script(world, watcher)
        world.reaper.close()
        # Nothing is left to kill, unless the reaper itself was killed.
        end_descendants()
        evidence = watcher.stop()
        output.join()
        decided = self._why
        self._settle_exit(code, output)
        if self._ending != states.COMPLETED:
            self._write_failure(decided or failure_text(launch.command, code, output.tail()), bool(decided))
        self._state.update(secondary_status="Uploading", exit_code=exit_code(code), script_ended=time.time())
        succeeded = self._ending == states.COMPLETED
        handover = hand_over(self._job, self._paths, code_before, succeeded, packs=self._venue.packs)
        self._notes += handover.notes
        if handover.problem is not None:
            self._end_as(states.FAILED, handover.problem)
        verdict = watcher.verdict(evidence)
        self._venue.keep_verdict(verdict.to_json())
        self._finish(
            artifacts={
                name: {"bytes": result.bytes, "files": result.files, "sha256": result.sha256}
                for name, result in handover.artifacts.items()
            },
            verdict=verdict.outcome,
            gpu_requirement_met=verdict.gpu_requirement_met,
        )
        return exit_code(code) or int(self._ending == states.FAILED or bool(self._state[_UNUSED]))

    def _start_script(self, world: World, launch: Launch, machine: Machine) -> None:
        world.reaper.launch(launch)
        answer = world.reaper.message()
        if "refused" in answer:
            raise NotStarted(f"the script could not be started: {answer['refused']}")
        begun = time.monotonic()
        # Told before the script's first line is passed on; meanwhile the pipe keeps it.
        self._state.update(
            secondary_status="Training" if self._job.kind == "training" else "Processing",
            script_started=time.time(),
            script_pid=answer["started"],
            command=launch.command,
            gpus=machine.gpus,
            notes=self._notes,
        )
        if self._job.max_duration is not None:
            self._deadlines.set(deadlines.MAX_DURATION, begun + self._job.max_duration)
        if self._job.if_gpu_unused is not None and self._job.expected_gpus:
            self._deadlines.set(deadlines.GPU_GRACE, begun + self._job.if_gpu_unused.grace)

    def _wait_for_script(self, world: World, watcher: Watcher) -> int:
        while True:
            ready, _, _ = select.select(
                [world.reaper, self._signals], [], [], self._deadlines.wait(time.monotonic())
            )
            if self._signals in ready:
                collect_ended()
                self._asked_to_stop(world)
            for name in self._deadlines.due(time.monotonic()):
                self._deadline(name, world, watcher)
            if world.reaper in ready:
                try:
                    message = world.reaper.message()
                except ReaperLost:
                    self._end_as(states.FAILED, "the process that kept the script was killed")
                    return -signal.SIGKILL
                if "ended" in message:
                    return message["ended"]

    def _asked_to_stop(self, world: World) -> None:
        while (request := self._signals.taken()) is not None:
            if request == AT_ONCE:
                self._end_as(states.STOPPED, "stopped at once, as asked")
                world.reaper.kill()
            else:
                self._stop(world, states.STOPPED, "stopped, as asked")

    def _deadline(self, name: str, world: World, watcher: Watcher) -> None:
        if name == deadlines.STOP_GRACE:
            self._notes.append(
                f"SIGTERM did not end the script within {self._job.stop_grace:g} s: it was killed"
            )
            world.reaper.kill()
        elif name == deadlines.MAX_DURATION:
            self._stop(
                world,
                states.STOPPED,
                f"max_duration of {self._job.max_duration:g} s is over",
                "MaxRuntimeExceeded",
            )
        elif name == deadlines.GPU_GRACE and watcher.gpu_used() is False:
            self._gpu_unused(world)

    def _gpu_unused(self, world: World) -> None:
        rule = self._job.if_gpu_unused
        assert rule is not None
        why = f"no GPU did any work in the first {rule.grace:g} s, and the job asks for one (if_gpu_unused: {rule.action})"
        if rule.action == "warn":
            self._notes.append(why)
            self._state.update(notes=self._notes)
        else:
            self._state.update(**{_UNUSED: True})
            self._stop(world, states.STOPPED if rule.action == "stop" else states.FAILED, why)

    def _stop(self, world: World, ending: str, why: str, secondary: str | None = None) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._end_as(ending, why, secondary)
        # First what matters to the script: words about it may find the disk full.
        world.reaper.signal(signal.SIGTERM)
        self._deadlines.set(deadlines.STOP_GRACE, time.monotonic() + self._job.stop_grace)
        self._state.update(status=states.STOPPING, secondary_status="Stopping")

    def _settle_exit(self, code: int, output: OutputLog) -> None:
        sink = self._venue.sink
        if sink.lost_bytes:
            self._notes.append(
                f"{sink.lost_reason}: {sink.lost_bytes:,} bytes of the script's output are lost"
            )
        if code != 0 and self._ending == states.COMPLETED:
            self._end_as(states.FAILED, reason(self._job.entry_point, code, output.tail()))

    def _write_failure(self, text: str, decided: bool = False) -> None:
        """Leave word of why the run failed where SageMaker looks for it.

        Args:
            decided: whether the text is the agent's own reason for ending the run, which goes before the script's words.
        """
        failure = self._paths.failure(self._job.kind)
        try:
            failure.parent.mkdir(parents=True, exist_ok=True)
            said = (
                failure.read_text(encoding="utf-8", errors="replace")[:LIMIT].strip()
                if failure.exists()
                else ""
            )
            if said:
                # The script's own words go before ours: that is what the file is for.
                self._why = f"{self._why}; it left the message: {said}" if self._why else said
            if said and not decided:
                return
            text = self._why if said and self._why else text
            failure.write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            self._notes.append(f"{failure.name} could not be written: {error.strerror}")

    def _never_started(self, ending: str, why: str) -> int:
        self._end_as(ending, why)
        self._write_failure(why, decided=True)
        self._finish()
        return 1

    def _end_as(self, ending: str, why: str, secondary: str | None = None) -> None:
        """Decide how the run ends; the first decision stands, but that it completed is none."""
        if self._ending == states.COMPLETED:
            self._ending, self._why, self._secondary = ending, why, secondary

    def _finish(self, **results: Any) -> None:
        self._state.update(
            status=self._ending,
            secondary_status=self._secondary or self._ending,
            failure_reason=self._why,
            ended=time.time(),
            notes=self._notes,
            **results,
        )
        self._venue.ended()
