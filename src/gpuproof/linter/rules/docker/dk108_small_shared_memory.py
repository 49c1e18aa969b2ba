"""The script loads data in worker processes, but its container has 64 MB of shared memory.

The workers of a `DataLoader` pass their batches through /dev/shm. Docker gives a container 64 MB of it, which a few batches
of images fill: "DataLoader worker (pid 37) is killed by signal: Bus error. It is possible that dataloader's workers are out
of shared memory". It is a note where the script shows no images. `--ipc=host` shares the host's, `--shm-size` sets the size.
Source: https://github.com/pytorch/pytorch#docker-image and https://docs.docker.com/reference/cli/docker/container/run/#shm-size.

Bad:

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus all -v "$PWD":/work -w /work \\  # <-
        pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python train.py
    # file: train.py
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder("data"), batch_size=256, shuffle=True, num_workers=8)
    model = torch.nn.Linear(8, 1).cuda()
    for images, labels in loader:
        model(images.cuda())

Good:

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus all --ipc=host -v "$PWD":/work -w /work \\
        pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python train.py
    # file: train.py
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder("data"), batch_size=256, shuffle=True, num_workers=8, pin_memory=True)
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in loader:
        optimizer.zero_grad()
        model(images.cuda()).sum().backward()
        optimizer.step()

Quiet: no workers, and a size

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus all -v "$PWD":/work -w /work pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python small.py
    docker run --rm --gpus all --shm-size=16g -v "$PWD":/work -w /work pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python big.py
    # file: small.py
    from torch.utils.data import DataLoader

    for batch in DataLoader(list(range(100)), batch_size=4):
        print(batch.cuda())
    # file: big.py
    from torch.utils.data import DataLoader

    for batch in DataLoader(list(range(100)), batch_size=4, num_workers=4):
        print(batch.cuda())
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import ABSENT
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.training.loader_workers import loader_workers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("DK108", "small-shared-memory", Severity.WARNING, when="link")

_OPTIONS = ("shm-size", "ipc")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source not in ("docker", "compose") or job.script is None:
        return
    if any(not job.arguments.get(name, ABSENT).is_absent for name in _OPTIONS) or _mounts_memory(job):
        return
    found = loader_workers(job.script)
    if found is None:
        return
    remedy = (
        "Add --ipc=host or --shm-size=16g."
        if job.source == "docker"
        else "Add `ipc: host` or `shm_size: 16gb`."
    )
    yield rule.hit(
        job.span,
        f"{job.script_title} loads data with {found.workers} workers ({found.title}), but the container has 64 MB of shared "
        "memory for their batches: they may die with a bus error.",
        remedy=remedy,
        severity=rule.severity if found.loads_images else lowered(rule.severity),
    )


def _mounts_memory(job: JobDefinition) -> bool:
    """Whether something is mounted at /dev/shm, or the rest of the service is in another file."""
    listed = [
        *(job.argument("volumes").items or ()),
        *(job.argument("tmpfs").items or (job.argument("tmpfs"),)),
    ]
    return any("/dev/shm" in (item.text or "") for item in listed) or not job.argument("extends").is_absent  # noqa: S108
