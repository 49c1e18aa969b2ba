"""`gpuproof.plan` for scripts and jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuproof
from gpuproof.cli.main import main
from gpuproof.errors import GPUproofError
from gpuproof.planning.tracing import NotTraceable

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

batch = int(sys.argv[sys.argv.index("--batch-size") + 1]) if "--batch-size" in sys.argv else 8
loader = DataLoader(TensorDataset(torch.randn(80, 16), torch.randint(0, 4, (80,))), batch_size=batch)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, labels in loader:
    loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_with_arguments(script: Path) -> None:
    plan = gpuproof.plan(
        script, arguments=["--batch-size", "16"], epochs=2, deadline="8h", on="sagemaker", region="eu-west-1"
    )
    assert (plan.trace.input.samples, plan.workload.steps) == (16, 10)
    assert plan.conditions.deadline == 8 * 3600
    assert plan.recommendation is not None
    assert plan.recommendation.instance_type.startswith("ml.")
    assert plan.recommendation.offer.priced.service == "sagemaker"


def test_a_plan_is_shown_as_the_command_shows_it(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = gpuproof.plan(script, on="ec2")
    # A second trace would have other times of the input pipeline.
    monkeypatch.setattr("gpuproof.app.plan.make_script_plan", lambda *_: plan)
    assert main(["plan", str(script), "--on", "ec2"]) == 0
    assert capsys.readouterr().out == f"{plan}\n"
    assert plan.recommendation is not None
    shown = f"<PlanResult: {script}: {plan.recommendation.instance_type} recommended, $"
    assert repr(plan).startswith(shown)
    assert f">{script}: training, PyTorch " in plan._repr_html_()
    assert plan.to_json()["recommendation"]["instance_type"] == plan.recommendation.instance_type


def test_a_job(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    job = gpuproof.TrainingJob(
        entry_point="train.py", hyperparameters={"batch-size": 4}, resources={"region": "eu-west-1"}
    )
    plan = gpuproof.plan(job)
    assert (plan.trace.input.samples, plan.conditions.region) == (4, "eu-west-1")


def test_the_plan_of_a_job_with_several_instances_says_that_it_is_of_one(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    job = gpuproof.TrainingJob(entry_point="train.py", instance_count=2, resources={"gpu": "A10G:1"})
    (found,) = (text for text in gpuproof.plan(job).to_json()["warnings"] if "instances" in text)
    assert found.startswith("The plan covers one of the job's 2 instances: ")
    alone = gpuproof.plan(job.model_copy(update={"instance_count": 1}))
    assert not any("instances" in text for text in alone.to_json()["warnings"])


def test_a_script_that_cannot_be_traced_names_its_line(script: Path) -> None:
    script.write_text("import torch\n\nraise ValueError('no data')\n")
    with pytest.raises(NotTraceable, match=r"line 3: The script raised ValueError: no data"):
        gpuproof.plan(script)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"budget": -1.0}, "budget must be more than 0"),
        ({"deadline": "soon"}, "deadline: 'soon' is not a duration"),
        ({"timeout": 0}, "timeout must be more than 0 seconds"),
        ({"max_memory": "much"}, "max_memory: 'much'"),
        ({"region": "us-esat-1"}, "The catalogue has no prices of us-esat-1"),
        ({"gpu": "RX580"}, "The catalogue has no GPU RX580"),
        ({"name": "train"}, "name is only for job files"),
        ({"inputs": {"training": "none"}}, "for the channel training"),
    ],
)
def test_wrong_arguments_are_named(script: Path, keys: dict[str, object], said: str) -> None:
    with pytest.raises(GPUproofError) as caught:
        gpuproof.plan(script, **keys)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(GPUproofError, match="There is no script"):
        gpuproof.plan(tmp_path / "none.py")
