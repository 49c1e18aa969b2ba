"""The Python blocks of docs/watch-python.md, with the trainings that they import, on a machine with the stub NVML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.watch_machine import WatchMachine

skip_without("torch", "transformers", "accelerate", "lightning", "keras")

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "watch-python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
TORCH = """
import torch
from training import train

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return {"x": torch.ones(2)}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)
    def forward(self, x):
        train()
        return {"loss": self.linear(x).square().mean()}
"""
MODULES = {
    "train_keras": """
import keras, numpy
from training import train

class Model(keras.Sequential):
    def train_step(self, *data):
        train()
        return super().train_step(*data)
model = Model([keras.layers.Dense(1)])
model.compile("sgd", "mse")
inputs, targets = numpy.ones((8, 2)), numpy.ones((8, 1))
""",
    "train_lightning": f"""{TORCH}
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Model()
    def training_step(self, batch, index): return self.model(**batch)["loss"]
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
module, loader = Module(), torch.utils.data.DataLoader(Rows())
""",
    "train_transformers": f"""{TORCH}
from transformers import TrainingArguments
model, dataset = Model(), Rows()
arguments = TrainingArguments("out", max_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no")
""",
    "train_accelerate": """
import torch
from training import train
loader = [torch.ones(2, 2), torch.ones(2, 2)]
def model(batch):
    train()
    return batch
""",
}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_page_runs_and_prints_a_verdict(machine: WatchMachine, tmp_path: Path, block: str):
    body = "\n".join(f"    {line}" for line in machine.works.splitlines())
    modules = {
        "training": f"def train():\n{body}\n    os.remove({str(machine.pid_file)!r})\nevaluate = train\n"
    }
    for name, text in {**modules, **MODULES}.items():
        (tmp_path / f"{name}.py").write_text(text)
    ended = machine.run(block, CUDA_VISIBLE_DEVICES="0", KERAS_BACKEND="torch")
    assert ended.returncode == 0, ended.stderr
    assert "verdict    used" in ended.stderr
