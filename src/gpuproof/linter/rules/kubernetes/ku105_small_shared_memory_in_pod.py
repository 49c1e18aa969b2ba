"""The script loads data in worker processes, but its pod has 64 MB of shared memory.

The workers of a `DataLoader` pass their batches through /dev/shm, which has 64 MB in a container; Kubernetes has no option for
its size. A few batches of images fill it: "DataLoader worker is killed by signal: Bus error". An `emptyDir` in memory,
mounted at /dev/shm, takes its place. Source: https://kubernetes.io/docs/concepts/storage/volumes/#emptydir.

Bad:

    # file: job.yaml
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: train  # <-
              image: registry.example.com/train:1.4
              command: ["python", "/app/train.py"]
              resources:
                limits:
                  nvidia.com/gpu: 1
    # file: train.py
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    model = torch.nn.Linear(8, 1).cuda()
    for images, labels in DataLoader(ImageFolder("data"), batch_size=256, shuffle=True, num_workers=8):
        model(images.cuda())

Good:

    # file: job.yaml
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
    spec:
      template:
        spec:
          restartPolicy: Never
          volumes:
            - name: shm
              emptyDir: {medium: Memory, sizeLimit: 16Gi}
          containers:
            - name: train
              image: registry.example.com/train:1.4
              command: ["python", "/app/train.py"]
              volumeMounts:
                - {name: shm, mountPath: /dev/shm}
              resources:
                limits:
                  nvidia.com/gpu: 1
    # file: train.py
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader(list(range(100)), batch_size=4, shuffle=True, num_workers=4, pin_memory=True)
    for batch in loader:
        print(batch.cuda())

Quiet: the host's shared memory, and no workers

    # file: job.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: train
    spec:
      hostIPC: true
      containers:
        - name: train
          image: registry.example.com/train:1.4
          command: ["python", "/app/train.py"]
          resources:
            limits:
              nvidia.com/gpu: 1
    # file: train.py
    from torch.utils.data import DataLoader

    for batch in DataLoader(list(range(100)), batch_size=4, num_workers=4):
        print(batch.cuda())
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.training.loader_workers import loader_workers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("KU105", "small-shared-memory-in-pod", Severity.WARNING, when="link")

_SHARED_MEMORY = "/dev/shm"  # noqa: S108


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source != "kubernetes" or job.script is None or not job.gpu_count.number:
        return
    container, pod = job.argument("container"), job.argument("pod")
    mounts = container.at("volumeMounts")
    if mounts.is_unknown or any(
        mount.at("mountPath").text in (None, _SHARED_MEMORY) for mount in mounts.items or ()
    ):
        return
    found = loader_workers(job.script)
    if found is None or pod.at("hostIPC").flag is True:
        return
    yield rule.hit(
        job.span,
        f"{job.script_title} loads data with {found.workers} workers ({found.title}), but its container has 64 MB of shared "
        "memory for their batches: they may die with a bus error.",
        remedy="Mount an emptyDir with medium: Memory at /dev/shm.",
        severity=rule.severity if found.loads_images else lowered(rule.severity),
    )
