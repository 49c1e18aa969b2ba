"""A job asks for a GPU, and the script or its settings choose the CPU: the GPU is billed and idle.

`device: cpu` is left in the settings from a test on a laptop, or is the default of a field that the job does not set. The job
trains many times as long and ends with success.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"settings": "prod.json"},
    ).fit()
    # file: prod.json
    {
      "epochs": 3,
      "device": "cpu"  # <-
    }
    # file: train.py
    import argparse
    import json
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--settings")
    args = parser.parse_args()
    with open(args.settings) as file:
        settings = json.load(file)
    device = torch.device(settings["device"])
    model = torch.nn.Linear(4, 1).to(device)
    for epoch in range(settings["epochs"]):
        model(torch.rand(8, 4).to(device)).sum().backward()

Bad: a constant that is left over

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: train.py
    import torch

    DEVICE = "cpu"  # <-
    model = torch.nn.Linear(4, 1).to(DEVICE)
    model(torch.rand(8, 4).to(DEVICE)).sum().backward()

Bad: the default of a field

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: config.py
    from dataclasses import dataclass

    @dataclass
    class Config:
        epochs: int = 3
        device: str = "cpu"  # <-
    # file: train.py
    import torch
    from config import Config

    def main():
        config = Config(epochs=5)
        device = torch.device(config.device)
        model = torch.nn.Linear(4, 1).to(device)
        for epoch in range(config.epochs):
            model(torch.rand(8, 4).to(device)).sum().backward()

    main()

Good:

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: config.yaml
    device: cuda
    # file: train.py
    import torch
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)
    device = torch.device(config["device"])
    model = torch.nn.Linear(4, 1).to(device)
    model(torch.rand(8, 4).to(device)).sum().backward()

Quiet: the job passes the device

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py --device cuda
    # file: train.py
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    model = torch.nn.Linear(4, 1).to(args.device)
    model(torch.rand(8, 4).to(args.device)).sum().backward()

Quiet: only the result is moved to the CPU

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: train.py
    import torch

    model = torch.nn.Linear(4, 1).to("cuda")
    model(torch.rand(8, 4, device="cuda")).sum().backward()
    torch.save(model.to("cpu").state_dict(), "model.pt")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, largest_job
from gpuproof.linter.knowledge.devices.chosen_device import ChosenDevice, cpu_choices
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.span import Span

rule = Rule("PT150", "cpu-chosen-for-gpu-job", Severity.ERROR, when="link", needs=("device", "to"))


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module) if module.imports("torch") else None
    if job is None or job.kind != "training" or not gpus_per_host(project, job):
        return
    modules = program_modules(module)
    if any(map(imports_device_manager, modules)) or not any(
        calls_named(item, "backward") for item in modules
    ):
        return
    seen: set[Span] = set()
    for choice in cpu_choices(module):
        if choice.span in seen:
            continue
        seen.add(choice.span)
        yield rule.hit(
            choice.span,
            f"{_name(choice)} is the CPU, but {job.title} asks for a GPU, which stays idle.",
            remedy='Choose "cuda".',
            severity=rule.severity if choice.certain else lowered(rule.severity),
        )


def _name(choice: ChosenDevice) -> str:
    text = choice.module.text(choice.node)
    return f"The device `{text}` of {choice.module.title}"
