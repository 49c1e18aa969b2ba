"""A Kubeflow job starts more or fewer processes in each pod than the pod has GPUs.

`nprocPerNode` of a `PyTorchJob` becomes torchrun's `--nproc_per_node`, and `slotsPerWorker` of an `MPIJob` the ranks of each
worker. With more processes than GPUs the surplus fails with "invalid device ordinal" or shares a GPU; with fewer, the other
GPUs are reserved, paid for and idle. Plain `python` is one process, whatever the operator sets. Source: https://www.kubeflow.org/docs/components/trainer/legacy-v1/user-guides/pytorch/.

Bad:

    # file: job.yaml
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata:
      name: train
    spec:
      nprocPerNode: "8"  # <-
      pytorchReplicaSpecs:
        Worker:
          replicas: 2
          template:
            spec:
              containers:
                - name: pytorch
                  image: registry.example.com/train:1.4
                  command: [torchrun, train.py]
                  resources:
                    limits:
                      nvidia.com/gpu: 4

Bad: one process in a pod with four GPUs

    # file: job.yaml
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata:
      name: train
    spec:
      pytorchReplicaSpecs:
        Master:
          replicas: 1
          template:
            spec:
              containers:
                - name: pytorch
                  image: registry.example.com/train:1.4
                  command: [python, /app/train.py]
                  resources:
                    limits:
                      nvidia.com/gpu: 4  # <-
    # file: train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())

Good:

    # file: job.yaml
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata:
      name: train
    spec:
      nprocPerNode: "4"
      pytorchReplicaSpecs:
        Worker:
          replicas: 2
          template:
            spec:
              containers:
                - name: pytorch
                  image: registry.example.com/train:1.4
                  command: [torchrun, train.py]
                  resources:
                    limits:
                      nvidia.com/gpu: 4

Quiet: as many as there are, and the launcher of MPI has no GPU

    # file: jobs.yaml
    apiVersion: kubeflow.org/v1
    kind: PyTorchJob
    metadata:
      name: train
    spec:
      nprocPerNode: gpu
      pytorchReplicaSpecs:
        Worker:
          template:
            spec:
              containers:
                - name: pytorch
                  image: registry.example.com/train:1.4
                  resources: {limits: {nvidia.com/gpu: 4}}
    ---
    apiVersion: kubeflow.org/v2beta1
    kind: MPIJob
    metadata:
      name: train
    spec:
      slotsPerWorker: 4
      mpiReplicaSpecs:
        Launcher:
          template:
            spec:
              containers:
                - name: launcher
                  image: registry.example.com/train:1.4
        Worker:
          template:
            spec:
              containers:
                - name: worker
                  image: registry.example.com/train:1.4
                  resources: {limits: {nvidia.com/gpu: 4}}
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates.kubernetes import GPU, as_number, pods
from gpuproof.util.humanize import pluralize

rule = Rule("KU108", "processes-not-gpus", Severity.ERROR, kinds=("kubernetes",))

_KEYS = {"PyTorchJob": "nprocPerNode", "MPIJob": "slotsPerWorker"}


@rule.job
def check_program(job: JobDefinition, _: Project) -> Hits:
    """A replica whose program is one process and does not start others."""
    gpus = job.gpu_count.number
    if job.source != "kubernetes" or job.argument("kind").text != "PyTorchJob" or not gpus or gpus < 2:
        return
    start, script = job.start, job.script
    if (
        script is None
        or start is None
        or start.kind != "python"
        or start.launcher is not None
        or job.runs_others
    ):
        return
    joins = script_uses(script, _JOINS, "call")
    if joins and not script_uses(script, _STARTS, "call", "name", "attribute"):
        yield rule.hit(
            job.where(job.gpu_count),
            f"{job.api}: `python {start.program}` is one process in a pod with {pluralize(int(gpus), 'GPU')}: the others are idle.",
            remedy="Start it with torchrun --nproc_per_node=gpu, or reserve one GPU.",
        )


_JOINS = re.compile(r"(^|\.)init_process_group$")
_STARTS = re.compile(
    r"(^|\.)(spawn|DataParallel|Process|Popen|run|start_processes|elastic_launch|subprocess|multiprocessing|Accelerator|Trainer"
    r"|Fabric|deepspeed|lightning|pytorch_lightning|ray|device_map|pipeline)(\.|$)"
)


@rule.unit
def check(unit: Unit, _: Project) -> Hits:
    if GPU not in unit.source:
        return
    reported: set[tuple[int, int]] = set()
    for pod in pods(unit):
        key = _KEYS.get(pod.kind)
        written = pod.manifest.at("spec", key) if key is not None else None
        if written is None or written.span is None:
            continue
        processes, gpus = as_number(written).number, pod.gpus.number
        place = (written.span.line, written.span.column)
        if processes is None or not gpus or processes == gpus or place in reported:
            continue
        reported.add(place)
        effect = "the surplus has no GPU of its own" if processes > gpus else "the others are idle"
        yield rule.hit(
            written.span,
            f"{pod.title}: `{key}` starts {processes} process{'es' if processes > 1 else ''} in a pod with "
            f"{pluralize(int(gpus), 'GPU')}: {effect}.",
            remedy=f"Write {key}: {gpus}.",
        )
