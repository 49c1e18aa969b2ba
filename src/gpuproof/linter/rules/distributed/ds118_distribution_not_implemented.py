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
    reads_hosts,
)
from gpuproof.linter.knowledge.distribution.multi_gpu import may_use_several_gpus, trainer_runs, trains_model
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
    script, count = job.script, host_count(job)
    started = enabled_launchers(job)
    if job.kind != "training" or script is None or count is None or not started or len(started) != 1:
        return
    kind = started[0]
    gpus = gpus_per_host(project, job)
    processes = count if kind in _TENSORFLOW or gpus is None else count * max(gpus, 1)
    if processes < 2 or (kind in _TENSORFLOW and not _is_tensorflow(job, script)):
        return
    if (
        may_use_several_gpus(script)
        or script_uses(script, _TAKES_PART, "call", "name")
        or reads_hosts(script)
        or set(unseen_imports(script)) - _CONNECT_NOTHING
        or trainer_runs(script)
        or not trains_model(script)
    ):
        return
    where = (
        f"{count} instances"
        if count > 1
        else f"the {gpus} GPUs of {'' if job.instance_type.text else 'each '}{host_text(job)}"
    )
    yield rule.hit(
        job.where(job.distribution, job.command, job.entry_point),
        f"`{launcher_name(job, kind)}` starts processes on {where}, but `{job.script_title}` does not connect them: each trains its "
        "own copy.",
        remedy=f"Use {_instead(job, kind)}, or one instance with one GPU and no `distribution`.",
    )


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
