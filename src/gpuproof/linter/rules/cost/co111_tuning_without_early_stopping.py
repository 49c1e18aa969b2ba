"""A tuning job starts many GPU jobs and lets each run to its end, even those that are hopeless after the first epoch.

`early_stopping_type="Auto"` stops a job whose metric is worse than the median of the others. It needs a metric that is printed
each epoch. Source: SageMaker's documentation on automatic model tuning.

Bad:

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge")
    tuner = HyperparameterTuner(  # <-
        estimator, "val_loss", {"lr": ContinuousParameter(1e-5, 1e-2)}, max_jobs=100, max_parallel_jobs=5
    )

Good:

    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    tuner = HyperparameterTuner(
        estimator, "val_loss", {"lr": ContinuousParameter(1e-5, 1e-2)}, objective_type="Minimize", max_jobs=100,
        early_stopping_type="Auto",
    )

Quiet: Hyperband stops jobs itself

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge")
    tuner = HyperparameterTuner(estimator, "val_loss", ranges, strategy="Hyperband", max_jobs=100)

Quiet: a few jobs

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge")
    tuner = HyperparameterTuner(estimator, "val_loss", ranges, max_jobs=4)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "CO111", "tuning-without-early-stopping", Severity.NOTE, when="strict", needs=("HyperparameterTuner",)
)

_MANY_JOBS = 10


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = {job.call.node: job for job in project.jobs_in(module) if job.call is not None}
    for call in calls_named(module, "HyperparameterTuner"):
        made = origin_call(module, call.expression("estimator", 0))
        job = jobs.get(made.node) if made is not None else None
        count = call.argument("max_jobs", 6)
        if job is None or not gpus_per_host(project, job) or (count.number or 0) < _MANY_JOBS:
            continue
        stopping, strategy = call.argument("early_stopping_type"), call.argument("strategy", 4)
        if stopping.is_absent and strategy.text != "Hyperband" and not strategy.is_unknown:
            yield rule.hit(
                call.span,
                f"{count.number} jobs on `{job.instance_type.text}` all run to their end, whatever their metric is.",
                remedy='Pass early_stopping_type="Auto".',
            )
