"""Scripts that only predict: a step is a batch, without a backward pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.trace.document import CATEGORIES
from gpuproof.trace.frameworks import only_predicts
from support.traced_scripts import trace_of

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

encoder = nn.Linear(64, 128).cuda().eval()
decoder = nn.Linear(128, 4).cuda().eval()
found = []
with torch.inference_mode():
    for (rows,) in DataLoader(TensorDataset(torch.randn(4000, 64)), batch_size=16):
        found.append(decoder(encoder(rows.cuda())).argmax(1).cpu())
        assert len(found) < 100, "the script went on"
print(torch.cat(found).shape)
"""


@pytest.mark.slow
def test_a_step_is_a_batch_with_all_its_models_and_the_script_ends_early(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SCRIPT)
    assert (trace.mode, trace.steps, trace.optimizer) == ("inference", 3, None)
    assert [(operator.name, operator.calls) for operator in trace.operators] == [
        ("aten.addmm", 1),
        ("aten.addmm", 1),
        ("aten.argmax", 1),
    ]
    assert {operator.phase for operator in trace.operators} == {"forward"}
    assert (trace.input.samples, trace.input.steps_per_epoch) == (16, 250)
    assert trace.parameters == 64 * 128 + 128 + 128 * 4 + 4
    kinds = {CATEGORIES[kind] for _, kind in trace.memory.blocks}
    assert "gradient" not in kinds
    assert "activation" not in kinds, "nothing is kept for a backward pass"


@pytest.mark.slow
def test_twice_the_batch_size_of_a_script_that_predicts(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SCRIPT, "--batch-scale", "2")
    assert (trace.input.samples, trace.input.steps_per_epoch) == (32, 125)


@pytest.mark.slow
def test_without_a_loader_a_step_is_a_call_of_the_model(tmp_path: Path) -> None:
    script = """
import torch

model = torch.nn.Linear(8, 8).cuda().eval()
with torch.no_grad():
    for index in range(1000):
        assert index < 100, "the script went on"
        model(torch.randn(4, 8).cuda())
"""
    trace = trace_of(tmp_path, script)
    assert (trace.mode, trace.steps, len(trace.operators)) == ("inference", 3, 1)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (SCRIPT, True),
        ("import torch\nmodel.eval()\nloss.backward()\n", False),
        ("import torch\nfrom torch import optim\nmodel.eval()\n", False),
        ("from transformers import Trainer\nTrainer(model).train()\nmodel.eval()\n", False),
        ("import keras\nmodel.fit(x)\nmodel.predict(x)\n", False),
        ("import keras\nmodel.predict(x)\n", True),
        ("import mylibrary\nmylibrary.main()\n", False),
    ],
)
def test_which_scripts_certainly_do_not_train(tmp_path: Path, script: str, expected: bool) -> None:
    path = tmp_path / "script.py"
    path.write_text(script)
    assert only_predicts(path) is expected


def test_a_module_beside_the_script_may_train(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text("def run(loss):\n    loss.backward()\n")
    path = tmp_path / "script.py"
    path.write_text("import torch\nimport loop\nmodel.eval()\nloop.run(1)\n")
    assert not only_predicts(path)
