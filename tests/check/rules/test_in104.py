"""IN104 for every spelling of a device that a CPU instance does not have, and silence where the script may avoid it."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(entry_point="train.py", role="r", framework_version="2.3", py_version="py311", instance_count=1,
        instance_type="ml.m5.xlarge").fit()
"""
TORCH = "import torch\nmodel = torch.nn.Linear(1, 1)\n"


def codes(folder: Path, script: str) -> list[str]:
    write_files(folder, {"launch.py": LAUNCH, "train.py": script + "\n"})
    report = check_paths([str(folder)], CheckOptions(Selection(select=("IN104",))))
    return [hit.code for hit in report.hits]


@pytest.mark.parametrize(
    "script",
    [
        TORCH + 'device = torch.device("cuda")\nmodel.to(device)',
        TORCH + 'device = torch.device("cuda:0")\nmodel = model.to(device=device)',
        TORCH + 'DEVICE = "cuda"\nmodel.to(DEVICE)',
        TORCH + 'model.to(f"cuda:{model.rank}")',
        TORCH + "torch.cuda.set_device(0)",
        TORCH + "model.cuda()",
        TORCH + 'x = torch.zeros(3, device="cuda")',
        TORCH + 'x = torch.zeros(3, device=torch.device("cuda"))',
        TORCH + 'torch.set_default_device("cuda")',
        TORCH + "assert torch.cuda.is_available()",
        TORCH + "print(torch.cuda.is_available())\nmodel.cuda()",
        TORCH + "pinned = torch.cuda.is_available()\nmodel.cuda()",
        TORCH + 'torch.distributed.init_process_group("nccl")',
        'from transformers import AutoModel\nm = AutoModel.from_pretrained("x", device_map="cuda")',
        'from transformers import pipeline\np = pipeline("text-generation", device="cuda:0")',
        'import lightning as L\nL.Trainer(accelerator="gpu")',
        'import pytorch_lightning as pl\npl.Trainer(max_epochs=1, accelerator="cuda", devices=1)',
        'from transformers import TrainingArguments\nargs = TrainingArguments("out", fp16=True)',
    ],
)
def test_a_script_that_needs_a_gpu_is_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == ["IN104"]


CHOICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'


@pytest.mark.parametrize(
    "script",
    [
        TORCH + 'device = torch.device("cuda")\nprint(device)',
        TORCH + CHOICE + "model.to(device)",
        TORCH + 'device = "cuda"\nif not torch.cuda.is_available():\n    device = "cpu"\nmodel.to(device)',
        TORCH + "if torch.cuda.is_available():\n    torch.cuda.set_device(0)\n    model.cuda()",
        TORCH + "if not torch.cuda.is_available():\n    raise SystemExit(0)\nmodel.cuda()",
        TORCH + "import sys\nif torch.cuda.device_count() == 0:\n    sys.exit(0)\nmodel.cuda()",
        TORCH + "try:\n    model.cuda()\nexcept RuntimeError:\n    pass",
        TORCH + 'torch.load("w.pt", map_location="cpu")',
        TORCH + "def on_gpu():\n    model.cuda()",
        'import torch\nbackend = "nccl" if torch.cuda.is_available() else "gloo"\ntorch.distributed.init_process_group(backend)',
        'from transformers import AutoModel\nm = AutoModel.from_pretrained("x", device_map="auto")',
        'import lightning as L\nL.Trainer(accelerator="auto")',
        'import lightning as L\nL.Trainer(accelerator="cpu")',
        'import torch\nfrom transformers import TrainingArguments\nargs = TrainingArguments("out", fp16=torch.cuda.is_available())',
        'from transformers import TrainingArguments\nargs = TrainingArguments("out", bf16=True)',
        'import xgboost\nbooster = xgboost.train({"device": "cpu"}, None)',
    ],
)
def test_a_script_that_may_run_without_a_gpu_is_not_reported(script: str, tmp_path: Path) -> None:
    assert codes(tmp_path, script) == []
