"""What findings say to write: a remedy fits the code that is reported, and can be typed as it is."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

CDK = """
from aws_cdk import Stack, aws_ecs as ecs

class Train(Stack):
    def __init__(self, scope, name):
        super().__init__(scope, name)
        task = ecs.Ec2TaskDefinition(self, "Task")
        task.add_container("trainer", image=ecs.ContainerImage.from_asset("image"), memory_limit_mib=8192)
"""
CDK_IMAGE = {
    "app.py": CDK,
    "image/Dockerfile": 'FROM python:3.11-slim\nRUN pip install torch\nCOPY train.py .\nCMD ["python", "train.py"]\n',
    "image/train.py": "import torch\nmodel = torch.nn.Linear(8, 1).cuda()\nprint(model)\n",
}
JAX_IMAGE = {
    "Dockerfile": "FROM nvidia/cuda:12.5.1-cudnn-runtime-ubuntu22.04\nRUN pip install jax flax\n",
}
EIGHT_BITS = """
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained("m", quantization_config=BitsAndBytesConfig(load_in_8bit=True))
model.{call}
"""
UNPREPARED = """
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
for x in DataLoader(torch.rand(64, 8), batch_size=8):
    accelerator.backward(model(x).sum())
    optimizer.step()
"""
LAUNCH = """
from sagemaker.pytorch import PyTorch

PyTorch(
    entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
    instance_count=1, instance_type="ml.p4d.24xlarge", distribution={{"{key}": {{"enabled": True}}}},
)
"""


@pytest.mark.parametrize(
    ("code", "files", "words"),
    [
        ("DK101", CDK_IMAGE, "gpu_count"),
        ("DK102", JAX_IMAGE, "Install jax[cuda12]."),
        (
            "DS111",
            {"launch.py": LAUNCH.format(key="pytorchfsdp")},
            '{"torch_distributed": {"enabled": True}}',
        ),
        ("DS111", {"launch.py": LAUNCH.format(key="smdistribute")}, '{"smdistributed": {"enabled": True}}'),
        ("DS133", {"train.py": UNPREPARED}, "Use loader = accelerator.prepare(DataLoader("),
        ("HF121", {"train.py": EIGHT_BITS.format(call="half()")}, "bnb_4bit_compute_dtype"),
        ("HF121", {"train.py": EIGHT_BITS.format(call='to("cuda")')}, "device_map"),
    ],
)
def test_a_remedy_fits_what_is_reported(
    code: str, files: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, files)
    report = check_paths(["."], CheckOptions(Selection(select=(code,))))
    assert [words in (hit.finding.remedy or "") for hit in report.hits] == [True]
