"""`gpuproof run` checks the job that it is about to run."""

from __future__ import annotations

import pytest

from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.journey

LOST = "import torch\nmodel = torch.nn.Linear(2, 2)\nprint('started')\ntorch.save(model.state_dict(), 'model.pt')\n"


def test_an_error_stops_the_job_before_anything_is_made(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print 'started'\n")
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 1
    assert "E901" in done.stderr
    assert "--no-check" in done.stderr
    assert not sandbox.runs.exists() or list(sandbox.runs.iterdir()) == []


def test_no_check_runs_it_all_the_same(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", "print 'started'\n")
    done = sandbox.gpuproof("run", "train.py", "--no-check")
    assert done.returncode == 1
    assert "SyntaxError" in done.stdout
    assert len(list(sandbox.runs.iterdir())) == 1


def test_a_model_that_would_be_lost_is_an_error_with_its_line_and_what_to_write(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", LOST)
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 1
    assert "train.py:4" in done.stderr
    assert "SM101" in done.stderr
    assert 'Save to os.path.join(os.environ["SM_MODEL_DIR"], "model.pt").' in done.stderr


TRAINING = """
import torch

model = torch.nn.Linear(2, 2).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    loss = model(torch.rand(8, 2, device="cuda")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "/opt/ml/model/model.pt")
"""


def test_a_script_for_many_gpus_that_uses_one_is_reported_before_it_costs(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", TRAINING)
    done = sandbox.gpuproof("run", "train.py", "--instance-type", "ml.g5.12xlarge")
    assert done.returncode == 1
    assert "DS101" in done.stderr
    assert "`ml.g5.12xlarge` has 4 GPUs" in done.stderr
    assert "3 idle" in done.stderr
