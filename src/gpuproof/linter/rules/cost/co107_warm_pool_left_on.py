"""A warm pool keeps the instances of a finished job, and they are billed until the period ends or another job uses them.

`keep_alive_period_in_seconds` saves the start of the next job while you iterate. In a script that runs one job, it is
only waiting time that is paid for. Periods of 30 minutes and more are reported. Source: SageMaker's documentation on managed warm pools.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.12xlarge",
        framework_version="2.6", py_version="py312", keep_alive_period_in_seconds=3600,  # <-
    ).fit()

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="r",
        instance_count=1,
        instance_type="ml.g5.12xlarge",
        framework_version="2.6",
        py_version="py312",
        keep_alive_period_in_seconds=600,
    )

Quiet: the period is not known

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", keep_alive_period_in_seconds=args.warm).fit()
"""

from gpuproof.catalogue.prices import cost_text
from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import hourly_price, no_price
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("CO107", "warm-pool-left-on", Severity.WARNING, when="strict")

_LONG_SECONDS = 1800


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    period = _period(job)
    seconds = period.number
    if job.kind != "training" or not period.is_known or seconds is None or seconds < _LONG_SECONDS:
        return
    name = job.instance_type.text
    price = hourly_price(project, name, "training") if name else None
    hosts = max(1, int(job.instance_count.number or 1))
    cost = f": up to {cost_text(price, hosts * seconds / 3600, 2)}" if price else no_price(project)
    yield rule.hit(
        job.where(period),
        f"The warm pool keeps {f'`{name}`' if name else 'the instances'} for {seconds / 60:g} minutes after the job{cost}.",
        remedy="Keep it for 10 minutes while you iterate, and remove it for single jobs.",
    )


def _period(job: JobDefinition) -> Value:
    for keyword in ("keep_alive_period_in_seconds", "KeepAlivePeriodInSeconds"):
        if not (value := job.argument(keyword)).is_absent:
            return value
    return job.argument("ResourceConfig").at("KeepAlivePeriodInSeconds")
