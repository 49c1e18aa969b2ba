"""`CUDA_VISIBLE_DEVICES` names fewer GPUs than the job's instance has, or GPUs that do not exist.

The variable hides the other GPUs from the process: they are billed and idle, and no framework warns. CUDA also stops at the
first number that does not exist, so that `"4,5"` on an instance with four GPUs leaves none. The rule looks at the script,
the job's environment and the command that starts the script. `""` and `"-1"` in a script are [PT109](PT109.md).
Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-environment-variables.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge",
    ).fit()
    # file: train.py
    import os

    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"  # <-
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(8, 1).cuda())

Bad: Accelerate is told to use the CPU

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:2
    accelerate launch --cpu --num_processes 2 train.py  # <-
    # file: train.py
    from accelerate import Accelerator

    accelerator = Accelerator()

Bad: in its settings

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:2
    accelerate launch --config_file accelerate.yaml train.py
    # file: accelerate.yaml
    num_machines: 1
    num_processes: 2
    use_cpu: true  # <-
    # file: train.py
    from accelerate import Accelerator

    accelerator = Accelerator()

Good: all of them

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge",
    ).fit()
    # file: train.py
    import os

    os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(8, 1).cuda())

Bad: the job's environment

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="image", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        environment={"CUDA_VISIBLE_DEVICES": "4,5"},  # <-
    ).fit()

Bad: the command

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="CUDA_VISIBLE_DEVICES=0 python train.py"),  # <-
        compute=Compute(instance_type="ml.p4d.24xlarge", instance_count=1),
    )
    # file: src/train.py
    print("training")

Quiet: a module that the job imports sets it for its own test

    # file: data.py
    import os

    def batches():
        return [1]

    if __name__ == "__main__":
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        print(batches())
    # file: train.py
    from data import batches

    for batch in batches():
        print(batch)
    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="role",
        instance_type="ml.g5.12xlarge",
        instance_count=1,
        framework_version="2.6",
        py_version="py312",
        distribution={"torch_distributed": {"enabled": True}},
    ).fit()

Quiet: each process gets its own GPUs

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    command = "CUDA_VISIBLE_DEVICES=0 python a.py & CUDA_VISIBLE_DEVICES=1,2,3 python b.py; wait"
    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command=command),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1),
    )
    # file: src/a.py
    print("training")
    # file: src/b.py
    print("training")

Quiet: only for some runs

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge").fit()
    # file: train.py
    import os
    import sys

    if "--one" in sys.argv:
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance, gpus_per_host, host_text
from gpuproof.linter.knowledge.distribution.accelerate_config import launch_settings
from gpuproof.linter.knowledge.distribution.launchers import format_distribution, has_no_launcher
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.knowledge.distribution.tasks import command_span
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.span import Span
from gpuproof.util.humanize import pluralize

rule = Rule("DS124", "gpus-not-visible", Severity.ERROR)

_VARIABLE = "CUDA_VISIBLE_DEVICES"


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    yield from _on_cpu(job, project)
    instance = find_instance(project, job.instance_type)
    if instance is None or not instance.gpu_count or job.kind not in ("training", "processing"):
        return
    gpus = instance.gpu_count
    for span, value, in_script in _settings(job):
        visible = _visible(value, gpus)
        # A script that hides all GPUs is reported by PT109.
        if visible is None or visible == gpus or (in_script and _hides_all(value)):
            continue
        idle = (
            f"{gpus - visible} of the {gpus} GPUs"
            if visible
            else f"all {gpus} GPUs"
            if gpus > 1
            else "the only GPU"
        )
        numbers = f"0 to {gpus - 1}" if gpus > 1 else "0"
        stops = f" (its GPUs are {numbers})" if _first_missing(value, gpus) is not None else ""
        yield rule.hit(
            span,
            f'{_VARIABLE} is "{value}": {idle} of `{instance.name}`{stops} {"are" if gpus > 1 else "is"} hidden and idle.',
            remedy=_remedy(job, visible),
            severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
        )


def _on_cpu(job: JobDefinition, project: Project) -> Hits:
    """The finding for `accelerate launch --cpu`, or `use_cpu` in its file, in a job with GPUs."""
    launcher = job.start.launcher if job.start is not None and not job.start.is_conditional else None
    gpus = gpus_per_host(project, job)
    if launcher is None or launcher.name != "accelerate" or not gpus or job.gpu_count.certainty == "default":
        return
    settings = launch_settings(job)
    in_file = settings is not None and settings.values.get("use_cpu") is True
    if "cpu" not in launcher.options and not in_file:
        return
    yield rule.hit(
        settings.span("use_cpu") if in_file and settings is not None else command_span(job),
        f"Accelerate is told to use the CPU, but each {host_text(job)} has {pluralize(gpus, 'GPU')}: "
        f"{'all are' if gpus > 1 else 'it is'} idle.",
        remedy="Set use_cpu: false." if in_file else "Remove --cpu.",
    )


def _settings(job: JobDefinition) -> Iterator[tuple[Span, str, bool]]:
    """Where the variable is certainly set for the job, its value, and whether the script does it."""
    given = job.environment.at(_VARIABLE)
    text = str(given.value) if given.is_known else None
    if text is not None:
        yield job.where(given, job.environment), text, False
    if job.start is not None and not job.runs_others and not job.start.is_conditional:
        value = job.start.environment.get(_VARIABLE)
        if value is not None and "$" not in value:
            yield job.where(job.command, job.entry_point), value, False
    if job.script is not None:
        for module in local_modules(job.script):
            yield from _set_in(module, imported=module is not job.script)


def _set_in(module: Module, *, imported: bool) -> Iterator[tuple[Span, str, bool]]:
    for node in module.nodes(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or module.qualified(target.value) != "os.environ":
            continue
        value = evaluate(module, node.value)
        if evaluate(module, target.slice).text != _VARIABLE or not value.is_known:
            continue
        if always_runs(module, node, imported=imported):
            yield module.span(node), str(value.value), True
    for call in calls_to(module, "os.environ.setdefault", "os.putenv"):
        value = call.argument("value", 1)
        if call.argument("key", 0).text != _VARIABLE or not value.is_known:
            continue
        if always_runs(module, call.node, imported=imported):
            yield call.span, str(value.value), True


def _visible(value: str, gpus: int) -> int | None:
    """The number of visible GPUs: those before the first that does not exist; None for UUIDs and MIG devices."""
    names = [name.strip() for name in value.split(",")]
    if any(name and not name.lstrip("-").isdigit() for name in names):
        return 0 if value.strip().lower() in ("none", "nodevfiles") else None
    found: set[int] = set()
    for name in names:
        if not name or not 0 <= int(name) < gpus:
            break
        found.add(int(name))
    return len(found)


def _hides_all(value: str) -> bool:
    return value.strip() in ("", "-1")


def _first_missing(value: str, gpus: int) -> str | None:
    names = [name.strip() for name in value.split(",")]
    return next((name for name in names if name.isdigit() and int(name) >= gpus), None)


def _remedy(job: JobDefinition, visible: int) -> str:
    smaller = f", or use an instance with {pluralize(visible, 'GPU')}" if visible else ""
    trainer = job.script is not None and job.script.imports("transformers") and has_no_launcher(job)
    start = (
        f" Under plain python the Trainer drives several GPUs with DataParallel: start one process per GPU with "
        f"{format_distribution(job, 'torch_distributed')}."
        if trainer
        else ""
    )
    return f"Remove {_VARIABLE}{smaller}.{start}"
