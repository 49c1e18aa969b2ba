"""`gpuproof run` checks the job that it is about to run."""

from __future__ import annotations

import pytest

from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.journey

LOST = "import torch\nmodel = torch.nn.Linear(2, 2)\nprint('started')\ntorch.save(model.state_dict(), 'model.pt')\n"

OPTIONAL = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--save-model", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(2, 2)
if args.save_model:
    torch.save(model.state_dict(), "model.pt")
"""


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
    # The check comes before the first request to AWS.
    done = sandbox.gpuproof("run", "train.py", "--on", "sagemaker", "--region", "us-east-1")
    assert done.returncode == 1
    assert "train.py:4" in done.stderr
    assert "SM101" in done.stderr
    assert 'Save to os.path.join(os.environ["SM_MODEL_DIR"], "model.pt").' in done.stderr


def test_a_model_that_stays_in_the_folder_of_a_local_run_is_a_warning_on_one_line(
    sandbox: CliSandbox,
) -> None:
    sandbox.write("train.py", LOST)
    done = sandbox.gpuproof("run", "train.py")
    assert done.returncode == 0
    assert "started" in done.stdout
    warnings = [line for line in done.stderr.splitlines() if "SM101" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning")
    assert warnings[0].endswith("This run is local: the file stays in the folder of the run.")


def test_a_save_that_the_arguments_turn_off_does_not_stop_the_job(sandbox: CliSandbox) -> None:
    sandbox.write("train.py", OPTIONAL)
    remote = ("--on", "sagemaker", "--region", "us-east-1")
    stopped = sandbox.gpuproof("run", "train.py", *remote, "--", "--save-model")
    assert "was not started: gpuproof check found 1 error" in stopped.stderr
    started = sandbox.gpuproof("run", "train.py", *remote)
    assert "was not started" not in started.stderr
    assert "`args.save_model` is false" in started.stderr


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
