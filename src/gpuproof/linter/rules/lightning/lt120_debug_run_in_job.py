"""A job runs Lightning's Trainer in a mode for debugging: it trains on one batch, or on a few again and again.

`fast_dev_run=True` runs one batch of each loader and disables checkpoints and loggers; `overfit_batches` trains on the same few batches; a small `limit_train_batches`
uses a part of the data. The job ends as completed, with a model that has learned nothing. The rule reports values that are written in scripts of jobs with a GPU;
`detect_anomaly=True`, which makes each step much slower, is reported as well.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import lightning as L
    from model import Net, loader

    trainer = L.Trainer(accelerator="gpu", fast_dev_run=True, default_root_dir="/opt/ml/model")  # <-
    trainer.fit(Net(), loader)

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import lightning as L
    from model import Net, loader

    trainer = L.Trainer(accelerator="gpu", max_epochs=10, default_root_dir="/opt/ml/model")
    trainer.fit(Net(), loader)

Quiet: an argument, and a script without a job

    import argparse
    import lightning as L

    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    trainer = L.Trainer(fast_dev_run=parser.parse_args().debug)
    other = L.Trainer(fast_dev_run=True)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text, largest_job
from gpuproof.linter.knowledge.trainers.lightning import created
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "LT120",
    "debug-run-in-job",
    Severity.WARNING,
    needs=("lightning",),
)

_EFFECTS = {
    "fast_dev_run": "trains on one batch and saves nothing",
    "overfit_batches": "trains on the same few batches",
    "limit_train_batches": "trains on a part of the data",
    "detect_anomaly": "checks every operation of the backward pass, several times slower",
}


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    if job is None or job.kind != "training" or not gpus_per_host(project, job):
        return
    for call in created(module, "Trainer"):
        for name, effect in _EFFECTS.items():
            value = call.argument(name)
            if not value.is_known or not _is_on(name, value):
                continue
            yield rule.hit(
                value.span or call.span,
                f"`{name}={value.value!r}` {effect}, on {host_text(job)}.",
                remedy=f"Remove {name}, or make it an argument.",
            )


def _is_on(name: str, value: Value) -> bool:
    if name in ("fast_dev_run", "detect_anomaly"):
        return value.flag is True or (name == "fast_dev_run" and (value.number or 0) >= 1)
    number = value.number
    if number is None or number <= 0:
        return False
    # A whole number counts batches, a fraction is a share of them.
    return (
        number <= _FEW
        if isinstance(number, int)
        else (number < 1 and name != "limit_train_batches") or number <= _SHARE
    )


_FEW = 20
_SHARE = 0.1
