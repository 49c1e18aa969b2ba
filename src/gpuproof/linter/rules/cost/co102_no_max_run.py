"""A training job on GPUs without a limit of its run time: a script that hangs is billed for 24 hours, the service's default.

A hang is common in distributed jobs: one rank fails and the others wait. The rule is strict, because 24 hours may be right.
Source: SageMaker's API, StoppingCondition.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.p4d.24xlarge",  # <-
        framework_version="2.6", py_version="py312",
    ).fit()

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="r",
        instance_count=1,
        instance_type="ml.p4d.24xlarge",
        framework_version="2.6",
        py_version="py312",
        max_run=4 * 3600,
    )

Quiet: no GPU

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.m5.xlarge").fit()

Quiet: the arguments may contain it

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", **options).fit()
"""

from gpuproof.catalogue.prices import cost_text
from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, hourly_price, no_price
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("CO102", "no-max-run", Severity.NOTE, when="strict")

_LIMITS = {"sagemaker-v2": ("max_run", "train_max_run"), "sagemaker-v3": ("stopping_condition",)}
_DEFAULT_HOURS = 24


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    limits = _LIMITS.get(job.source)
    if job.kind != "training" or limits is None or not gpus_per_host(project, job):
        return
    if any(not job.argument(limit).is_absent for limit in limits):
        return
    price = hourly_price(project, str(job.instance_type.text), "training")
    hosts = max(1, int(job.instance_count.number or 1))
    cost = (
        f", {cost_text(price, _DEFAULT_HOURS * hosts, 0)} on `{job.instance_type.text}`"
        if price
        else no_price(project)
    )
    yield rule.hit(
        job.where(job.instance_type),
        f"No limit of the run time: a job that hangs is billed for {_DEFAULT_HOURS} hours{cost}.",
        remedy=f"Pass {limits[0]}, in seconds: a little more than the job takes."
        if job.source == "sagemaker-v2"
        else "Pass stopping_condition=StoppingCondition(max_runtime_in_seconds=...).",
    )
