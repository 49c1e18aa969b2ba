"""The number of processes per host, of MPI or torchrun, differs from the number of GPUs.

Fewer processes leave GPUs idle and billed; more processes share a GPU and its memory, and NCCL rejects a GPU that is
used twice. Horovod and SageMaker's libraries expect one process per GPU.

Bad:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 8}},  # <-
    )

Fixed:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 4}},
    )

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    distribution:
      launcher: torchrun
      processes_per_host: 2  # <-

Bad:

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import Torchrun

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2),
        distributed=Torchrun(process_count_per_node=8),  # <-
    )

Bad: fewer GPUs are visible

    # file: run.sh
    export CUDA_VISIBLE_DEVICES=0,1
    torchrun --standalone --nproc_per_node=4 train.py  # <-
    # file: train.py
    import torch

    torch.distributed.init_process_group("nccl")

Bad: in the settings of Accelerate

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=1
    #SBATCH --gres=gpu:4
    accelerate launch --config_file accelerate.yaml train.py
    # file: accelerate.yaml
    num_machines: 1
    num_processes: 8  # <-
    # file: train.py
    from accelerate import Accelerator

    accelerator = Accelerator()

Bad: Lightning and Slurm count differently

    # file: job.sbatch
    #!/bin/bash
    #SBATCH --nodes=2
    #SBATCH --ntasks-per-node=4
    #SBATCH --gres=gpu:4
    srun python train.py
    # file: train.py
    import lightning

    lightning.Trainer(accelerator="gpu", devices=4, strategy="ddp").fit(None)  # <-

Quiet: LT115 reports Lightning's devices

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.12xlarge
    # file: train.py
    import lightning

    lightning.Trainer(accelerator="gpu", devices=8, strategy="ddp").fit(None)

Good:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 4}},
    )

Quiet: any number of ranks on CPUs

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.c5.9xlarge",
        distribution={"mpi": {"enabled": True, "processes_per_host": 8}},
    )

Quiet: MPI of the SDK v3 starts this number of ranks on all hosts together

    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode
    from sagemaker.train.distributed import MPI

    ModelTrainer(
        source_code=SourceCode(source_dir="src", entry_script="train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=2),
        distributed=MPI(process_count_per_node=8, mpi_additional_options=["--map-by", "ppr:4:node"]),
    )

Quiet: MPI is off

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"mpi": {"enabled": False, "processes_per_host": 8}},
    )

Bad: torchrun starts one process unless it is told a number

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="torchrun train.py"),  # <-
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1),
    )
    # file: src/train.py
    import torch

    torch.distributed.init_process_group("nccl")

Quiet: torchrun counts the GPUs

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="torchrun --nproc_per_node=gpu train.py"),
        compute=Compute(instance_type="ml.g5.12xlarge", instance_count=1),
    )
    # file: src/train.py
    import torch

    torch.distributed.init_process_group("nccl")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers, host_count, processes_per_host
from gpuproof.linter.knowledge.distribution.multi_gpu import requested_gpus
from gpuproof.linter.knowledge.distribution.tasks import command_span, tasks_per_host
from gpuproof.linter.knowledge.trainers.lightning import class_name
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix
from gpuproof.util.humanize import pluralize

rule = Rule("DS116", "processes-per-host", Severity.WARNING)

_LAUNCHERS = {
    "mpi": "MPI",
    "torch_distributed": "torchrun",
    "accelerate": "accelerate launch",
    "deepspeed": "deepspeed",
    "srun": "srun",
}
_OF_COMMANDS = {"torchrun": "torch_distributed"}
_KEYS = {"sagemaker-v3": "process_count_per_node", "remote": "nproc_per_node"}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    yield from _too_many_devices(job, project)
    yield from _too_few_visible(job)
    yield from _lightning_tasks(job)
    started = enabled_launchers(job) or ()
    if len(started) != 1 or started[0] not in _LAUNCHERS:
        return
    setting = processes_per_host(job)
    count, number = gpus_per_host(project, job), setting.number
    if not count or number is None or number == count:
        return
    idle = count - int(number)
    what = f"{idle} are idle" if idle > 0 else "several processes share a GPU"
    edits = (
        ()
        if job.start is not None and job.start.launcher is not None
        else replace_text(setting, str(number), str(count))
    )
    sure = setting.is_known and (job.instance_type.is_known or job.gpu_count.is_known)
    yield rule.hit(
        job.where(setting, job.distribution),
        f"{_LAUNCHERS[started[0]]} starts {number} process{'' if number == 1 else 'es'} on each {host_text(job)}, which has {pluralize(count, 'GPU')}: {what}.",
        remedy=f"Set {_key(job)} to {_count(job, count)}.",
        severity=rule.severity if sure else lowered(rule.severity),
        fix=Fix(f"Start {count} processes per host", edits, safe=True) if edits and sure else None,
    )


def _too_many_devices(job: JobDefinition, project: Project) -> Hits:
    """Scripts that ask for more GPUs than a host has, which `mp.spawn` and Fabric reject."""
    limit = requested_gpus(job.script) if job.kind == "training" and job.script is not None else None
    gpus = gpus_per_host(project, job)
    if limit is None or not gpus or limit.gpus <= gpus or not limit.is_known:
        return
    # LT115 reports the devices of a Trainer.
    if class_name(limit.call) == "Trainer":
        return
    yield rule.hit(
        limit.call.span,
        f"`{limit.written}` asks for more GPUs than {host_text(job)} has, which are {gpus}: the job fails.",
        remedy=f"Ask for {gpus}, or for all that there are.",
    )


def _too_few_visible(job: JobDefinition) -> Hits:
    """Processes for which the command makes fewer GPUs visible: all but the first ones fail."""
    start = job.start
    launcher = start.launcher if start is not None else None
    visible = start.environment.get("CUDA_VISIBLE_DEVICES", "") if start is not None else ""
    if (
        launcher is None
        or start is None
        or start.is_conditional
        or launcher.name not in ("torchrun", "accelerate", "deepspeed")
    ):
        return
    processes = launcher.processes or (launcher.total if launcher.hosts == 1 else None)
    gpus = len([name for name in visible.split(",") if name.strip().isdigit()])
    if processes is None or gpus == 0 or gpus != len(visible.split(",")) or processes <= gpus:
        return
    yield rule.hit(
        command_span(job),
        f'{_LAUNCHERS[_OF_COMMANDS.get(launcher.name, launcher.name)]} starts {processes} processes, but CUDA_VISIBLE_DEVICES="{visible}" '
        f"shows them {pluralize(gpus, 'GPU')}: the others fail.",
        remedy=f"Set {launcher.option} to {gpus}, or make {processes} GPUs visible.",
        severity=Severity.ERROR,
    )


def _lightning_tasks(job: JobDefinition) -> Hits:
    """A Trainer of Lightning whose devices or nodes differ from the tasks of Slurm, which it refuses."""
    start = job.start
    limit = requested_gpus(job.script) if job.source == "slurm" and job.script is not None else None
    if (
        limit is None
        or not limit.is_known
        or start is None
        or start.launchers != ("srun",)
        or start.is_conditional
    ):
        return
    if not limit.call.method.endswith("Trainer"):
        return
    tasks, nodes = tasks_per_host(job), limit.call.argument("num_nodes")
    hosts, wanted = host_count(job), 1 if nodes.is_absent else nodes.number if nodes.is_known else None
    if "ntasks-per-node" in job.arguments and tasks.number is not None and tasks.number != limit.gpus:
        yield rule.hit(
            limit.call.span,
            f"`{limit.written}`, but srun starts {int(tasks.number)} tasks on each node: Lightning refuses to start.",
            remedy=f"Set --ntasks-per-node={limit.gpus}.",
            severity=Severity.ERROR,
        )
    elif hosts is not None and wanted is not None and hosts != wanted:
        yield rule.hit(
            limit.call.span,
            f"num_nodes is {int(wanted)}, but the job has {pluralize(hosts, 'node')}: Lightning refuses to start.",
            remedy=f"Pass num_nodes={hosts}.",
            severity=Severity.ERROR,
        )


def _key(job: JobDefinition) -> str:
    launcher = job.start.launcher if job.start is not None else None
    return launcher.option if launcher is not None else _KEYS.get(job.source, "processes_per_host")


def _count(job: JobDefinition, gpus: int) -> int:
    """The number that the launcher's option counts: processes of one host, or of all."""
    launcher = job.start.launcher if job.start is not None else None
    counts_all = launcher is not None and launcher.total is not None
    return gpus * (host_count(job) or 1) if counts_all else gpus
