"""On how many GPUs and hosts Lightning runs a module."""

from __future__ import annotations

from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.multi_gpu import requested_gpus
from gpuproof.linter.knowledge.trainers.lightning import created
from gpuproof.linter.project import Project


def runs_on_several_gpus(module: Module, project: Project) -> bool:
    """Whether a job runs the module on several GPUs, or a Trainer of its program is told to use several."""
    jobs = [job for job in project.jobs_running(module) if job.script is not None]
    if not jobs:
        for other in program_modules(module, "Trainer"):
            if created(other, "Trainer"):
                asked = requested_gpus(other)
                if asked is not None and asked.gpus > 1:
                    return True
        return False
    for job in jobs:
        asked = requested_gpus(job.script) if job.script is not None else None
        here = gpus_per_host(project, job) or 0
        gpus = asked.gpus if asked is not None else here
        if gpus > 1 and here > 1:
            return True
    return False
