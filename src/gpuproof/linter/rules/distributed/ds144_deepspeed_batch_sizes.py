"""DeepSpeed's batch sizes contradict each other: it asserts their product before the first step, and the job fails.

`train_batch_size` = `train_micro_batch_size_per_gpu` x `gradient_accumulation_steps` x processes. If all three are given, they
must fit the number of processes that the job starts; if `train_batch_size` is not a multiple of the other two, no number of processes fits: "Check batch related
parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size". Two of them are enough.
Source: https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters.

Bad: for no number of processes

    # file: ds_config.json
    {
      "train_batch_size": 100,  # <-
      "train_micro_batch_size_per_gpu": 16,
      "gradient_accumulation_steps": 2
    }

Bad: not for this job

    # file: run.sh
    deepspeed --num_gpus 8 train.py --deepspeed_config ds_config.json
    # file: ds_config.json
    {
      "train_batch_size": 512,  # <-
      "train_micro_batch_size_per_gpu": 16,
      "gradient_accumulation_steps": 2
    }
    # file: train.py
    import deepspeed
    import torch

    engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1))

Bad: in Python

    import deepspeed
    import torch

    config = {
        "train_batch_size": 30,  # <-
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "Adam"},
    }
    engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1), config=config)

Good:

    # file: run.sh
    deepspeed --num_gpus 8 train.py --deepspeed_config ds_config.json
    # file: ds_config.json
    {
      "train_batch_size": 256,
      "train_micro_batch_size_per_gpu": 16,
      "gradient_accumulation_steps": 2
    }
    # file: train.py
    import deepspeed
    import torch

    engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1))

Quiet: the Trainer fills them in

    # file: ds_config.json
    {
      "train_batch_size": "auto",
      "train_micro_batch_size_per_gpu": 16,
      "gradient_accumulation_steps": "auto",
      "zero_optimization": {"stage": 2}
    }

Quiet: two of them

    # file: ds_config.json
    {
      "train_batch_size": 512,
      "train_micro_batch_size_per_gpu": 16
    }
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.deepspeed import (
    count_of,
    process_count,
    settings_of_file,
    settings_of_job,
    settings_of_script,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("DS144", "deepspeed-batch-sizes", Severity.ERROR, needs=("deepspeed",), kinds=("deepspeed",))

_TOTAL, _EACH, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


@rule.unit
def check_file(unit: Unit, _: Project) -> Hits:
    settings = settings_of_file(unit)
    if settings is not None:
        yield from _undivided(settings)


@rule.module
def check_script(module: Module, _: Project) -> Hits:
    for settings in settings_of_script(module):
        yield from _undivided(settings)


@rule.job
def check_job(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "training" or job.script is None or not job.script.mentions("deepspeed"):
        return
    for settings in settings_of_job(project, job):
        total, each, steps = (count_of(settings, name) for name in (_TOTAL, _EACH, _STEPS))
        if total is None or each is None or total % (each * (steps or 1)):
            continue
        if steps is None and not settings.at(_STEPS).is_absent:
            continue
        processes = process_count(project, job)
        if processes is None:
            continue
        fits = total == each * steps * processes if steps is not None else total % (each * processes) == 0
        span = settings.at(_TOTAL).span
        if fits or span is None:
            continue
        product = (
            f"{each} x {steps} x {processes}" if steps is not None else f"a multiple of {each} x {processes}"
        )
        yield rule.hit(
            span,
            f"{_TOTAL} is {total}, but {processes} processes ({job.title}) need {product}"
            f"{f' = {each * steps * processes}' if steps is not None else ''}: DeepSpeed fails at start-up.",
            remedy=f"Leave {_STEPS} or {_TOTAL} out, or make them fit.",
        )


def _undivided(settings: Value) -> Hits:
    """The finding for sizes that fit no number of processes."""
    total, each, steps = (count_of(settings, name) for name in (_TOTAL, _EACH, _STEPS))
    span = settings.at(_TOTAL).span
    if total is None or span is None:
        return
    if each is None and steps is None:
        return
    product = (each or 1) * (steps or 1)
    if total % product == 0:
        return
    parts = " x ".join(str(part) for part in (each, steps) if part is not None)
    yield rule.hit(
        span,
        f"{_TOTAL} is {total}, which is not a multiple of {parts}"
        f"{f' = {product}' if each is not None and steps is not None else ''}: DeepSpeed fails at start-up, with any number of GPUs.",
        remedy=f"Leave one of the three out: {_TOTAL} = {_EACH} x {_STEPS} x processes.",
    )
