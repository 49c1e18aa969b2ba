"""A PyTorch model and its batches stay on the CPU unless the script moves them, even on a GPU instance.

There is no warning: the loss decreases, only slowly, while the GPU is billed. TensorFlow uses the GPU automatically,
PyTorch does not. The rule reports training loops (`backward()` in a loop, and an optimizer's `step()`; without
a GPU job, also a DataLoader) in scripts that move nothing to a GPU: a `device` that is only defined, printed or passed as `map_location`
moves nothing. It is an error if the linked job's instance has GPUs. Jobs on CPU instances are not reported, nor are
scripts that import a library that may move the model and data.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()  # <-
        optimizer.step()

Bad: a GPU job runs it, and it makes its own batches

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.load("/opt/ml/input/data/train/x.pt")
    for batch in x.split(64):
        optimizer.zero_grad()
        model(batch).mean().backward()  # <-
        optimizer.step()

Bad: the device is only defined

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print("Using", device)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()  # <-
        optimizer.step()

Bad: a trainer of its own, in another file

    # file: main.py
    import torch
    from torch.utils.data import DataLoader
    from trainer import Trainer

    Trainer(torch.nn.Linear(8, 1), DataLoader([])).fit()
    # file: trainer.py
    import torch

    class Trainer:
        def __init__(self, model, loader):
            self.model, self.loader = model, loader
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def fit(self):
            for x, y in self.loader:
                self.step(x, y)

        def step(self, x, y):
            self.optimizer.zero_grad()
            torch.nn.functional.mse_loss(self.model(x), y).backward()  # <-
            self.optimizer.step()

Good:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    model = torch.nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()

Quiet: the job runs on a CPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.m5.xlarge").fit()
    # file: train.py
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader([]):
        loss = model(x).sum()
        loss.backward()
        optimizer.step()

Quiet: Accelerate moves the model and the batches

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    model, loader = accelerator.prepare(model, DataLoader([]))
    for x, y in loader:
        accelerator.backward(model(x).sum())
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.repeats import is_repeated
from gpuproof.linter.analysis.local_imports import program_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import (
    gpus_per_host,
    hourly_price,
    hourly_text,
    largest_job,
    no_price,
)
from gpuproof.linter.knowledge.devices.device_use import may_use_device, program_may_use_device
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT101", "training-never-uses-gpu", Severity.ERROR, needs=("backward",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("torch"):
        return
    steps = [
        call
        for call in calls_named(module, "backward")
        if call.receiver is not None and is_repeated(module, call.node)
    ]
    modules = program_modules(module) if steps else []
    if not any(calls_named(other, "step") for other in modules):
        return
    job = largest_job(project, module)
    gpus = gpus_per_host(project, job) if job is not None else None
    # Without a job, what trains on generated data is an example that is meant for a CPU.
    if not gpus and not any(calls_named(other, "DataLoader") for other in modules):
        return
    if gpus == 0 or (job is not None and gpus is None and not job.instance_type.is_absent):
        return
    script = job.script if job is not None and job.script is not None else module
    if may_use_device(script) or program_may_use_device(module):
        return
    if any(map(unseen_imports, (script, *modules))):
        return
    if job is not None and gpus:
        name = job.instance_type.text or "node"
        price = hourly_price(project, str(name), "training")
        hosts = int(job.instance_count.number or 1)
        cost = f" at {hourly_text(price, hosts)}" if price else no_price(project)
        whole = "the GPU stays" if gpus * hosts == 1 else f"all {gpus * hosts} GPUs stay"
        where = f"`{name}`" if hosts == 1 else f"{hosts} x `{name}`"
        message = f"The model and the batches are never moved to a GPU: {whole} idle on {where}{cost} ({job.title})."
    else:
        message = "The model and the batches are never moved to a GPU: this trains on the CPU even if there is a GPU."
    yield rule.hit(
        steps[0].span,
        message,
        remedy='Use device = torch.device("cuda"), call model.to(device) before creating the optimizer, and move each '
        "batch: x, y = x.to(device), y.to(device).",
        severity=Severity.ERROR if gpus else Severity.WARNING,
    )
