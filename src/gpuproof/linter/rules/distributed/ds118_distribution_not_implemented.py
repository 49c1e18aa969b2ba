"""The job enables distributed training, but its script does not take part in it.

`distribution` starts processes and sets variables such as `TF_CONFIG` or `RANK`; it does not change the script. A
plain Keras `fit()` with a parameter server, or a PyTorch loop without DistributedDataParallel under torchrun or MPI,
trains an independent copy of the model in each process.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.xlarge",
        distribution={"parameter_server": {"enabled": True}},  # <-
    )
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit([], [])

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.12xlarge",
        distribution={"torch_distributed": {"enabled": True}},  # <-
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: {launcher: torchrun, max_restarts: 2}  # <-
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: mpi  # <-
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Bad: each process takes its own GPU, and nothing connects them

    # file: run.sh
    torchrun --nproc_per_node=8 train.py  # <-
    # file: train.py
    import os
    import torch

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    device = torch.device(f"cuda:{local_rank}")
    model = torch.nn.Linear(8, 1).to(device)
    for x in torch.utils.data.DataLoader([]):
        model(x.to(device)).sum().backward()
    if local_rank == 0:
        torch.save(model.state_dict(), "model.pt")

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.xlarge",
        distribution={"multi_worker_mirrored_strategy": {"enabled": True}},
    )
    # file: train.py
    import os
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit([], [])
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: TensorFlow 1 estimators use the parameter server

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="1.15", py_version="py37",
        instance_count=2, instance_type="ml.g4dn.xlarge", distribution={"parameter_server": {"enabled": True}},
    )
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential()
    model.fit([], [])
    tf.estimator.train_and_evaluate(model, None, None)

Quiet: Accelerate uses the processes that torchrun starts

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=2, instance_type="ml.g5.xlarge", distribution={"torch_distributed": {"enabled": True}},
    )
    # file: train.py
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(8, 1))
    accelerator.backward(model(torch.ones(8)))

Quiet: each rank of MPI trains with a learning rate of its own

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution: mpi
    # file: train.py
    import os
    import torch

    rate = (0.1, 0.01, 0.001, 0.0001)[int(os.environ["OMPI_COMM_WORLD_RANK"])]
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for x in torch.utils.data.DataLoader([]):
        model(x.cuda()).sum().backward()

Quiet: each process has its own share of the data

    # file: run.sh
    torchrun --nproc_per_node=8 train.py
    # file: train.py
    import os
    import torch

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    model = torch.nn.Linear(8, 1).to(rank)
    data = torch.utils.data.Subset(torch.rand(64, 8), range(rank, 64, 8))
    for x in torch.utils.data.DataLoader(data, num_workers=4):
        model(x.to(rank)).sum().backward()
    torch.save(model.state_dict(), f"model{rank}.pt")
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text
from gpuproof.linter.knowledge.distribution.launchers import (
    enabled_launchers,
    format_distribution,
    host_count,
    launcher_name,
    processes_per_host,
    reads_hosts,
)
from gpuproof.linter.knowledge.distribution.multi_gpu import may_share_work, trainer_runs, trains_model
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS118", "distribution-not-implemented", Severity.WARNING, when="link")

_TAKES_PART = re.compile(
    r"^tensorflow\.(compat\.v1\.)?(estimator|distribute)(\.|$)|(^|\.)(train_and_evaluate|\w*Strategy|Server|MonitoredTrainingSession)$"
)
_CONNECT_NOTHING = frozenset({"transformers", "datasets", "evaluate", "peft", "tokenizers"})
_TENSORFLOW = ("parameter_server", "multi_worker_mirrored_strategy")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    script, started = job.script, enabled_launchers(job)
    if job.kind != "training" or script is None or not started or len(started) != 1:
        return
    kind = started[0]
    processes, where = _processes(job, project, kind)
    if processes < 2 or (kind in _TENSORFLOW and not _is_tensorflow(job, script)):
        return
    if (
        may_share_work(script)
        or script_uses(script, _TAKES_PART, "call", "name")
        or reads_hosts(script)
        or set(unseen_imports(script)) - _CONNECT_NOTHING
        or trainer_runs(script)
        or not trains_model(script)
    ):
        return
    yield rule.hit(
        job.where(job.distribution, job.command, job.entry_point),
        f"`{_name(job, kind)}` starts {where}, but `{job.script_title}` does not connect them: each trains its "
        "own copy.",
        remedy=f"Use {_instead(job, kind)}, or one instance with one GPU and no `distribution`.",
    )


def _name(job: JobDefinition, kind: str) -> str:
    launcher = job.start.launcher if job.start is not None else None
    return launcher.name if launcher is not None else launcher_name(job, kind)


def _processes(job: JobDefinition, project: Project, kind: str) -> tuple[int, str]:
    """How many processes a launcher certainly starts, and where; 0 if that is unknown."""
    count, gpus = host_count(job), gpus_per_host(project, job)
    if count is None:
        each = (
            processes_per_host(job).number if job.start is not None and kind == "torch_distributed" else None
        )
        return int(each or 0), f"{int(each or 0)} processes"
    if count > 1:
        where = f"processes on {count} instances"
    else:
        where = f"processes on the {gpus} GPUs of {'' if job.instance_type.text else 'each '}{host_text(job)}"
    return count if kind in _TENSORFLOW or gpus is None else count * max(gpus, 1), where


def _is_tensorflow(job: JobDefinition, script: Module) -> bool:
    return job.framework == "tensorflow" or (
        job.source == "gpuproof" and script.imports("tensorflow", "keras")
    )


def _instead(job: JobDefinition, kind: str) -> str:
    if kind == "parameter_server":
        mirrored = format_distribution(job, "multi_worker_mirrored_strategy")
        return f"{mirrored} with MultiWorkerMirroredStrategy"
    if kind == "multi_worker_mirrored_strategy":
        return "tf.distribute.MultiWorkerMirroredStrategy() in the script"
    if kind == "mpi":
        return "Horovod or mpi4py in the script"
    return "torch.distributed.init_process_group() and DistributedDataParallel in the script"
