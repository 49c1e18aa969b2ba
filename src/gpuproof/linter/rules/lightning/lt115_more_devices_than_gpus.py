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

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text, largest_job
from gpuproof.linter.knowledge.trainers.argument_files import cli_trainers
from gpuproof.linter.knowledge.trainers.lightning import created
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("LT115", "more-devices-than-gpus", Severity.ERROR, needs=("lightning",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    gpus = gpus_per_host(project, job) if job is not None else None
    # Without any GPU, IN104 and PT109 speak.
    if job is None or not gpus:
        return
    for kind, devices in _devices(module):
        wanted = _wanted(devices) if kind.is_absent or kind.text in ("gpu", "cuda", "auto") else None
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
    for settings in cli_trainers(module):
        yield settings.at("accelerator"), settings.at("devices")


def _wanted(devices: Value) -> int | None:
    """The number of GPUs that a machine must have for these devices."""
    if devices.items is not None:
        numbers = [item.number for item in devices.items]
        known = [int(number) for number in numbers if number is not None]
        return max(known) + 1 if known and len(known) == len(numbers) else None
    return int(devices.number) if devices.number is not None and devices.number > 0 else None
