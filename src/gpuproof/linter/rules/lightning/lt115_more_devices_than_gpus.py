"""Lightning's Trainer asks for more GPUs than the instance has: MisconfigurationException.

`devices=8` on an instance with four GPUs, or `devices=[1]` where the only GPU has the number 0, fails when the Trainer is created: "You requested gpu
... But your machine only has ...". Fewer devices than GPUs are reported by DS101.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import lightning as L

    trainer = L.Trainer(accelerator="gpu", devices=8, strategy="ddp")  # <-

Bad: Lightning 1, and the smaller of two instances

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.p3.16xlarge",
        framework_version="1.9", py_version="py38",
    ).fit()
    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.p3.8xlarge",
        framework_version="1.9", py_version="py38",
    ).fit()
    # file: train.py
    import pytorch_lightning as pl

    trainer = pl.Trainer(gpus=8, accelerator="ddp")  # <-

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge",
        framework_version="2.3", py_version="py311",
    ).fit()
    # file: train.py
    import lightning as L

    trainer = L.Trainer(accelerator="gpu", devices=4, strategy="ddp")

Quiet: the CPU, and no job

    import lightning as L

    trainer = L.Trainer(accelerator="cpu", devices=8)
    other = L.Trainer(accelerator="gpu", devices=8)
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text
from gpuproof.linter.knowledge.trainers.argument_files import cli_trainers
from gpuproof.linter.knowledge.trainers.lightning import created
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered


class Host(NamedTuple):
    """A job that runs the script, and the GPUs of each of its hosts."""

    job: JobDefinition
    gpus: int


rule = Rule("LT115", "more-devices-than-gpus", Severity.ERROR, needs=("lightning",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    # Without any GPU, IN104 and PT109 speak.
    hosts = [Host(job, gpus) for job in project.jobs_running(module) if (gpus := gpus_per_host(project, job))]
    if not hosts:
        return
    for kind, devices in _devices(module):
        wanted = _wanted(devices) if kind.is_absent or kind.text in ("gpu", "cuda", "auto") else None
        # Another job may pass another number for an option, and needs its own GPUs for a number that is written out.
        choose = min if devices.is_known else max
        job, gpus = choose(hosts, key=lambda host: host.gpus)
        if wanted is None or wanted <= gpus:
            continue
        asked = (
            f"{len(devices.items)} devices up to number {wanted - 1}"
            if devices.items is not None
            else f"{wanted} devices"
        )
        yield rule.hit(
            devices.span or job.span,
            f"The Trainer asks for {asked}, and {host_text(job)} has {gpus} GPU{'' if gpus == 1 else 's'}: "
            "MisconfigurationException.",
            remedy=f'Pass devices={gpus} or "auto", or use an instance with {wanted} GPUs.',
            severity=rule.severity
            if devices.is_known and job.instance_type.is_known
            else lowered(rule.severity),
        )


def _devices(module: Module) -> Iterator[tuple[Value, Value]]:
    """The `accelerator` and `devices` of each Trainer, also in the settings of LightningCLI."""
    for call in created(module, "Trainer"):
        yield call.argument("accelerator"), call.argument("devices")
        # Lightning 1.
        yield ABSENT, call.argument("gpus")
    for settings in cli_trainers(module):
        yield settings.at("accelerator"), settings.at("devices")


def _wanted(devices: Value) -> int | None:
    """The number of GPUs that a machine must have for these devices."""
    if devices.items is not None:
        numbers = [item.number for item in devices.items]
        known = [int(number) for number in numbers if number is not None]
        return max(known) + 1 if known and len(known) == len(numbers) else None
    if devices.text is not None and re.fullmatch(r"\d+(,\d+)*", devices.text):
        numbers = [int(number) for number in devices.text.split(",")]
        return max(numbers) + 1 if len(numbers) > 1 else numbers[0]
    return int(devices.number) if devices.number is not None and devices.number > 0 else None
