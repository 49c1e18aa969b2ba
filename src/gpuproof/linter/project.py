"""What rules look at beyond one file: the workspace, the jobs and their scripts, and the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.linter.analysis.local_imports import local_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.jobs.arguments import passed_words
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.memory_plan import MemoryPlan, MemoryPlans, TraceOptions
from gpuproof.linter.source.span import Unit

if TYPE_CHECKING:
    from gpuproof.catalogue.catalogue import Catalogue
    from gpuproof.catalogue.model import Instance


@dataclass(frozen=True)
class Target:
    """The environment that jobs are checked for.

    Args:
        sagemaker_sdk: the SDK's major version; None if it is not given.
        region: where jobs run, for prices and offerings; None if it is not given.
        instance_type: an instance type that replaces those of all jobs (`--instance-type`).
        tensorflow: the version of TensorFlow that the job will import, where that is installed; None if unknown.
        trace: how the jobs' scripts are traced (`--plan`); None if no code may run.
    """

    sagemaker_sdk: int | None = None
    region: str | None = None
    instance_type: str | None = None
    tensorflow: str | None = None
    trace: TraceOptions | None = None


class Project:
    """Everything that is checked in one run.

    Args:
        units: the texts, by the absolute path that a job can name.

    Attributes:
        workspace: the texts and their modules.
        jobs: the jobs that the texts describe, each linked to its script.
        memory: plans the jobs' GPU memory.
    """

    def __init__(self, units: Iterable[Unit] = (), target: Target | None = None) -> None:
        self.target = target or Target()
        self._origin: Project | None = None
        self.workspace = Workspace(units)
        self.jobs: list[JobDefinition] = []
        self.memory = MemoryPlans()
        self._jobs_by_script: dict[Path, list[JobDefinition]] = {}
        self._jobs_by_launcher: dict[Module, list[JobDefinition]] = {}
        self._instances: dict[str, Instance | None] = {}

    @cached_property
    def catalogue(self) -> Catalogue:
        """The facts about AWS GPUs, loaded on first use."""
        from gpuproof.catalogue.catalogue import Catalogue

        return self._origin.catalogue if self._origin is not None else Catalogue.load()

    @property
    def region(self) -> str:
        """The region whose prices are shown."""
        return self.target.region or "us-east-1"

    def with_target(self, target: Target) -> Project:
        """The same texts and jobs, checked for another environment."""
        if target == self.target:
            return self
        project = copy(self)
        project.target, project._origin = target, self._origin or self  # noqa: SLF001
        return project

    def link(self, jobs: Iterable[JobDefinition], log: ErrorLog | None = None) -> None:
        """Set the jobs, and find the modules that the script of each imports.

        Args:
            log: gets the exceptions; a script that raises one is checked without the modules that it imports.
        """
        log = log or ErrorLog()
        self.jobs = list(jobs)
        self._jobs_by_launcher = defaultdict(list)
        for job in self.jobs:
            if job.module is not None:
                self._jobs_by_launcher[job.module].append(job)
        scripts = [job.script for job in self.jobs if job.script is not None]
        self.workspace.set_script_folders(script.unit.absolute.parent for script in scripts)
        self.workspace.retain(script.unit.absolute for script in scripts)
        found: dict[Path, list[JobDefinition]] = defaultdict(list)
        for job in self.jobs:
            if job.script is None:
                continue
            units = log.guard(
                partial(local_units, job.script), job.script.path, task="finding imported modules"
            )
            for unit in units:
                if job not in found[unit.absolute]:
                    found[unit.absolute].append(job)
            self.workspace.trim()
        self._jobs_by_script = dict(found)
        self.workspace.retain(found)
        self._bind_arguments(log)

    def _bind_arguments(self, log: ErrorLog) -> None:
        """Evaluate the arguments of each script that only one job runs as that job passes them."""
        by_script: dict[Unit, list[JobDefinition]] = defaultdict(list)
        for job in self.jobs:
            if job.script is not None:
                by_script[job.script.unit].append(job)
        for unit, jobs in by_script.items():
            job, script = jobs[0], jobs[0].script
            if len(jobs) > 1 or script is None or script is job.module or job.runs_others:
                continue
            task = "reading the arguments of the job"
            for words in log.guard(partial(passed_words, job), unit.path, task=task):
                if self.workspace.job_arguments(unit) is None:
                    self.workspace.set_job_arguments(unit, words)
                    # What was evaluated to find the jobs had the defaults.
                    script.release()

    def jobs_in(self, module: Module) -> list[JobDefinition]:
        """The jobs that this module describes."""
        return self._jobs_by_launcher.get(module, [])

    def instance(self, name: str) -> Instance | None:
        """The instance type of this name in the catalogue; None if it is unknown."""
        if name not in self._instances:
            self._instances[name] = self.catalogue.instance(name)
        return self._instances[name]

    def jobs_running(self, module: Module) -> list[JobDefinition]:
        """The jobs whose script is this module or imports it."""
        return self._jobs_by_script.get(module.unit.absolute, [])

    def plan_memory(self, job: JobDefinition) -> MemoryPlan | None:
        """What a training job on an instance with a GPU needs of its memory; None for other jobs, and without `--plan`.

        Raises:
            NotPlanned: its script cannot be traced, or its arguments are not known.
        """
        options = self.target.trace
        if options is None or job.kind != "training" or job.script is None:
            return None
        name = job.instance_type.text
        instance = self.instance(name) if name is not None else None
        if instance is None or not instance.gpu_count:
            return None
        return self.memory.plan(job, instance, self.catalogue, self.region, options)
