"""If the backends would use different instance types, the predicted cost of the whole job decides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from gpuproof.backends.cheapest.choose import Choice, choose_backend
from gpuproof.backends.cheapest.prediction import Predict, Prediction
from gpuproof.backends.registry import compared_backends
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode, UsageError
from support.aws_emulator import RunningEmulator
from support.ec2_planning import EC2PlanningSandbox

pytestmark = pytest.mark.slow

TRAINING = "L-B6D80D9C"
"""SageMaker's quota for training on ml.g5.xlarge."""
SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64000, 512), torch.randint(0, 10, (64000,))), batch_size=64)
model = nn.Sequential(nn.Linear(512, 8192), nn.ReLU(), nn.Linear(8192, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for inputs, labels in loader:
    loss = nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def different_types(emulator: RunningEmulator) -> Iterator[None]:
    """SageMaker has no quota for the job's first type, and takes its fallback."""
    emulator.quotas({TRAINING: 0})
    yield
    emulator.quotas({TRAINING: 500})


def choose(sandbox: EC2PlanningSandbox, predict: Predict) -> Choice:
    job = sandbox.training(instance_type="g5.xlarge", fallbacks=["g6.2xlarge"])
    return choose_backend(compared_backends(), job, predict=predict)


def answer(seconds: Mapping[str, float], *, too_small: str = "") -> Predict:
    return lambda types: {
        name: Prediction(seconds[name], name != too_small) for name in types if name in seconds
    }


@pytest.mark.usefixtures("different_types")
def test_a_faster_type_may_cost_less_than_a_cheaper_one(sandbox: EC2PlanningSandbox) -> None:
    choice = choose(sandbox, answer({"g5.xlarge": 7200.0, "g6.2xlarge": 1800.0}))
    chosen = choice.candidates[0]
    assert (chosen.backend, choice.note) == ("sagemaker", "")
    assert "the lowest predicted cost, $" in chosen.reason
    assert "in 30 min" in chosen.reason
    assert chosen.to_json()["predicted_seconds"] == 1800.0
    (other,) = (
        candidate for candidate in choice.candidates if candidate.backend == "ec2" and not candidate.spot
    )
    assert other.offer is not None
    assert other.to_json()["predicted_usd"] == pytest.approx(2 * (other.offer.usd_per_hour or 0))
    assert "% more, $" in other.reason


@pytest.mark.usefixtures("different_types")
def test_a_type_on_which_the_script_does_not_fit_is_not_chosen(sandbox: EC2PlanningSandbox) -> None:
    choice = choose(sandbox, answer({"g5.xlarge": 60.0, "g6.2xlarge": 1800.0}, too_small="g5.xlarge"))
    assert choice.candidates[0].backend == "sagemaker"
    assert "the script does not fit its GPU's memory" in choice.text


@pytest.mark.usefixtures("different_types")
def test_without_predictions_the_price_of_an_hour_decides_and_a_note_says_so(
    sandbox: EC2PlanningSandbox,
) -> None:
    def fails(types: Sequence[str]) -> Mapping[str, Prediction]:
        raise UsageError("train.py, line 3: no data")

    for predict, said in ((fails, "line 3: no data"), (answer({"g5.xlarge": 1.0}), "on g6.2xlarge")):
        choice = choose(sandbox, predict)
        assert (choice.backend.name, choice.candidates[0].reason) == ("ec2", "the lowest price")
        assert choice.text.splitlines()[-1].startswith("Compared by the price of an hour")
        assert said in choice.note


def test_on_the_same_type_nothing_is_predicted(sandbox: EC2PlanningSandbox) -> None:
    def never(types: Sequence[str]) -> Mapping[str, Prediction]:
        raise AssertionError(types)

    assert choose(sandbox, never).backend.name == "ec2"


@pytest.fixture
def typed(
    sandbox: EC2PlanningSandbox, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Typed:
    """Run a command beside a script that can be planned; returns the exit code and its output."""
    monkeypatch.chdir(sandbox.folder)
    monkeypatch.setenv("GPUPROOF_BUCKET", sandbox.bucket)
    sandbox.write("src/train.py", SCRIPT)
    sandbox.write("gpuproof.yaml", "name: small\nentry_point: train.py\nsource_dir: src\nmax_duration: 1h\n")

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["run", "--dry-run", "--no-check", *words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.usefixtures("different_types")
def test_the_script_is_planned_for_the_types_of_both_backends(typed: Typed) -> None:
    code, out, err = typed(
        "--on", "cheapest", "--instance-type", "g5.xlarge", "--fallback", "g6.2xlarge", "--format", "json"
    )
    assert code == ExitCode.OK, err
    candidates = json.loads(out)["candidates"]
    assert "the lowest predicted cost" in candidates[0]["reason"]
    times = {candidate["instance_type"]: candidate["predicted_seconds"] for candidate in candidates}
    assert times["g5.xlarge"] > 0
    assert times["ml.g6.2xlarge"] > 0


@pytest.mark.parametrize(("on", "prefix"), [("ec2", "g"), ("sagemaker", "ml.g")])
def test_auto_runs_on_the_type_that_the_plan_recommends(typed: Typed, on: str, prefix: str) -> None:
    code, out, err = typed("--on", on, "--instance-type", "auto", "--format", "json")
    assert code == ExitCode.OK, err
    (line,) = (line for line in err.splitlines() if line.startswith("type "))
    name = line.split()[1].rstrip(",")
    assert name.startswith(prefix)
    assert "the cheapest instance on which it is sure to fit within the deadline" in line
    assert f'"InstanceType": "{name}"' in out


def test_auto_with_cheapest_runs_the_recommended_type(typed: Typed) -> None:
    code, out, err = typed("--on", "cheapest", "--instance-type", "auto")
    assert code == ExitCode.OK, err
    text = out + err
    (line,) = (line for line in text.splitlines() if line.startswith("type "))
    name = line.split()[1].rstrip(",").removeprefix("ml.")
    assert f"{name} at $" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--input", "training=s3://bucket/data"), "--input training=FOLDER"),
        (("--instance-count", "2"), "Only jobs on one host are planned"),
        (("--gpu", "A10G:1"), "The job names its GPU"),
        (("--max-duration", "1s"), "within the job's max_duration"),
    ],
)
def test_auto_says_why_it_cannot_choose(typed: Typed, words: tuple[str, ...], said: str) -> None:
    code, out, err = typed("--on", "ec2", "--instance-type", "auto", *words)
    assert code in (ExitCode.USAGE, ExitCode.FAILED)
    assert said in out + err


def test_auto_shows_the_line_of_a_script_that_cannot_be_planned(
    typed: Typed, sandbox: EC2PlanningSandbox
) -> None:
    sandbox.write("src/train.py", "import torch\n\nraise ValueError('no data')\n")
    code, out, err = typed("--on", "ec2", "--instance-type", "auto")
    assert code == ExitCode.FAILED, err
    assert "train.py, line 3: The script raised ValueError: no data" in out + err
