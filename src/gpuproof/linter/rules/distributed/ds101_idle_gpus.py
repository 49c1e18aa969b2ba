"""The instance has several GPUs but the script uses one, and no launcher starts a process per GPU: the rest are
billed idle.

PyTorch and TensorFlow both use a single GPU unless the script or its launcher says otherwise; so do Lightning with
`devices=1` and MirroredStrategy or DataParallel with a list of fewer devices than there are. The rule considers the
job's instance, whether its `distribution` starts several processes, and whether anything that the script imports from
its own project distributes work over GPUs. It does not report scripts that import a library that might do so
(Accelerate, Lightning without a number of devices, the Hugging Face Trainer, Ray, or an unknown one).

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge",  # <-
    )
    estimator.fit()
    # file: train.py
    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(8, 1).to(device)
    for x, y in torch.utils.data.DataLoader([]):
        loss = model(x.to(device)).sum()
        loss.backward()

Good: one process per GPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge", distribution={"torch_distributed": {"enabled": True}},
    )
    # file: train.py
    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = torch.utils.data.TensorDataset(torch.ones(64, 8))
    for (x,) in DataLoader(dataset, sampler=DistributedSampler(dataset, shuffle=False)):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))

Good: an instance with one GPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    torch.ones(1).backward()

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge  # <-
    distribution: none
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad: Lightning is told to use one

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.12xlarge").fit()  # <-
    # file: train.py
    import lightning as L
    from model import Net

    trainer = L.Trainer(accelerator="gpu", devices=1)
    trainer.fit(Net())

Bad: the default strategy is one for a single GPU, and the GPUs are only listed

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.12xlarge").fit()  # <-
    # file: train.py
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    print(f"{len(gpus)} GPUs")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    with tf.distribute.get_strategy().scope():
        model = tf.keras.Sequential()
        model.compile()
    model.fit([])

Quiet: each of the listed GPUs gets its own tower

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.12xlarge").fit()
    # file: train.py
    import tensorflow as tf

    towers = []
    for gpu in tf.config.list_logical_devices("GPU"):
        with tf.device(gpu.name):
            towers.append(tf.keras.Sequential())
    towers[0].fit([])

Quiet: GPUproof starts one process per GPU

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: torchrun
    # file: train.py
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad: a Slurm script

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --gpus-per-node=4  # <-
    srun python train.py
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Quiet: MirroredStrategy uses every GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.12xlarge")
    # file: train.py
    import tensorflow as tf

    with tf.distribute.MirroredStrategy().scope():
        model = tf.keras.Sequential()
        model.compile()
    model.fit([])

Quiet: the Trainer of transformers uses all GPUs

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", instance_count=1, instance_type="ml.p3.8xlarge")
    # file: train.py
    import torch
    from transformers import Trainer

    Trainer(model=torch.nn.Linear(1, 1)).train()
"""

from gpuproof.catalogue.prices import cost_text
from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import unseen_imports
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import (
    find_instance,
    gpus_per_host,
    hourly_price,
    hourly_text,
    no_price,
)
from gpuproof.linter.knowledge.devices.device_use import may_use_device
from gpuproof.linter.knowledge.distribution.launchers import format_distribution, has_no_launcher
from gpuproof.linter.knowledge.distribution.multi_gpu import (
    GpuLimit,
    may_use_several_gpus,
    requested_gpus,
    trainer_runs,
    trains_model,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered

rule = Rule("DS101", "idle-gpus", Severity.ERROR, when="link")

_USE_ONE = frozenset({"transformers", "datasets", "evaluate", "peft", "tokenizers"})
"""Libraries whose models use one GPU in a loop of the script's own; `Trainer` and `device_map` are looked for."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    gpus = gpus_per_host(project, job)
    if job.kind != "training" or job.script is None or gpus is None or gpus < 2:
        return
    if not has_no_launcher(job):
        return
    instance = find_instance(project, job.instance_type)
    name = instance.name if instance is not None else None
    limit = requested_gpus(job.script)
    if limit is not None and limit.gpus < gpus:
        yield _limited(job, project, name, gpus, limit)
        return
    if not trains_model(job.script):
        return
    # The command gives each of several programs its own GPU.
    if job.runs_others and job.start is not None and "CUDA_VISIBLE_DEVICES" in job.start.environment:
        return
    # A script that uses no GPU at all is reported by PT101.
    if job.script.imports("torch") and not may_use_device(job.script):
        return
    if (
        may_use_several_gpus(job.script)
        or set(unseen_imports(job.script)) - _USE_ONE
        or trainer_runs(job.script)
    ):
        return
    idle = gpus - 1
    yield rule.hit(
        job.where(job.instance_type, job.gpu_count),
        f"{_host(name)} has {gpus} GPUs; nothing in `{job.script_title}` uses more than one: "
        f"{idle} idle{_cost(project, name, idle / gpus)}.",
        remedy=_remedy(job, project, name),
        severity=rule.severity if _is_sure(job) else lowered(rule.severity),
    )


def _host(name: str | None) -> str:
    return f"`{name}`" if name is not None else "Each node"


def _is_sure(job: JobDefinition) -> bool:
    return job.instance_type.certainty == "known" or job.gpu_count.is_known


def _limited(job: JobDefinition, project: Project, name: str | None, gpus: int, limit: GpuLimit) -> Hit:
    """The finding for a script that asks for fewer GPUs than there are."""
    idle = gpus - limit.gpus
    module = limit.call.module
    line = module.unit.file_position(limit.call.node.lineno, 1)[1]
    argument = limit.written.partition("=")[0]
    every = (
        "one for each GPU" if argument in ("devices", "device_ids") and "[" in limit.written else str(gpus)
    )
    return rule.hit(
        job.where(job.instance_type, job.gpu_count),
        f"{_host(name)} has {gpus} GPUs; `{limit.written}` in `{module.title}`, line {line}, uses {limit.gpus} of them: "
        f"{idle} idle{_cost(project, name, idle / gpus)}.",
        remedy=f"Set {argument} to {every}, or use an instance with {limit.gpus} GPU{'s' if limit.gpus > 1 else ''}.",
        severity=rule.severity if _is_sure(job) and limit.is_known else lowered(rule.severity),
    )


def _cost(project: Project, name: str | None, share: float) -> str:
    price = hourly_price(project, name, "training") if name is not None else None
    if name is None:
        return ""
    return f", {cost_text(price, share)} of {hourly_text(price)}" if price else no_price(project)


def _remedy(job: JobDefinition, project: Project, name: str | None) -> str:
    from gpuproof.catalogue.search import InstanceQuery

    instance = project.catalogue.instance(name) if name is not None else None
    single = (
        project.catalogue.search(InstanceQuery(gpus=(str(instance.gpu_model),), use="training"))
        if instance
        else ()
    )
    one = next((found.name for found in single if found.gpu_count == 1), None)
    if one and instance and not instance.on_sagemaker:
        one = one.removeprefix("ml.")
    price = hourly_price(project, one, "training") if one else None
    smaller = (
        f"use {one}{f' ({hourly_text(price)})' if price else ''}, or "
        if one
        else "request one GPU, or "
        if name is None
        else ""
    )
    launcher = (
        "train under tf.distribute.MirroredStrategy()"
        if job.script is not None and job.script.imports("tensorflow", "keras")
        else f"start one process per GPU with {format_distribution(job, 'torch_distributed')} and wrap the "
        "model in DistributedDataParallel"
    )
    text = f"{smaller}{launcher}."
    return text[0].upper() + text[1:]
