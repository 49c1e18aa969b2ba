"""`gpuproof check --plan`: whether the scripts of jobs fit into the memory of their GPUs."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cli.main import main
from gpuproof.linter.jobs.memory_plan import MemoryPlans
from support.check_helpers import write_files
from support.forked_tracers import fork_tracers

pytestmark = pytest.mark.slow

JOB = """
name: language-model
entry_point: code/train.py
framework: pytorch
framework_version: "2.6"
instance_type: ml.g4dn.xlarge
inputs:
  training: {data}
hyperparameters:
  batch-size: {batch}
arguments: [--vocabulary, "32000"]
"""
TRAIN = """
import argparse
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

class Tokens(Dataset):
    def __init__(self):
        self.samples = len(list(Path(os.environ["SM_CHANNEL_TRAINING"]).iterdir())) * 1000

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return torch.zeros(512, dtype=torch.long)

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--vocabulary", type=int, default=8)
args = parser.parse_args()
assert Path("code/train.py").is_file(), "the source folder is the working directory"
words = args.vocabulary
model = torch.nn.Sequential(torch.nn.Embedding(words, 1024), torch.nn.Linear(1024, words)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for tokens in DataLoader(Tokens(), batch_size=args.batch_size):
    tokens = tokens.cuda()
    loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
Run = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    fork_tracers(monkeypatch)
    (tmp_path / "samples").mkdir()
    for number in range(3):
        (tmp_path / "samples" / str(number)).touch()

    def run(*words: str) -> tuple[int, list[dict[str, Any]]]:
        code = main(["check", "--format", "json", *words])
        found = json.loads(capsys.readouterr().out)["findings"]
        return code, [match for match in found if match["code"].startswith("MEM")]

    return run


def write_job(folder: Path, *, batch: int, data: str = "samples") -> None:
    write_files(folder, {"gpuproof.yaml": JOB.format(batch=batch, data=data), "code/train.py": TRAIN})


def test_a_batch_that_does_not_fit_is_an_error_at_the_instance_type(check: Run, tmp_path: Path) -> None:
    write_job(tmp_path, batch=128)
    code, (finding,) = check("--plan")
    assert code == 1
    assert (finding["code"], finding["severity"], finding["location"]["line"]) == ("MEM101", "error", 6)
    assert finding["message"].startswith("Batch size 128 of `train.py` does not fit: it needs about ")
    assert "the T4 of `ml.g4dn.xlarge` has 14.6 GiB" in finding["message"]
    assert "Use a batch size of at most " in finding["remedy"]
    assert "`gpuproof plan gpuproof.yaml language-model --fit T4` shows what else helps." in finding["remedy"]
    largest = int(finding["remedy"].split("at most ")[1].split()[0])
    write_job(tmp_path, batch=largest)
    assert check("--plan")[1] == []


def test_nothing_runs_without_plan(check: Run, tmp_path: Path) -> None:
    write_job(tmp_path, batch=128)
    (tmp_path / "code/train.py").write_text("open('ran', 'w')\n" + TRAIN)
    assert check("--select", "ALL")[1] == []
    assert not (tmp_path / "ran").exists()


def test_a_larger_gpu_is_tried_with_instance_type(check: Run, tmp_path: Path) -> None:
    write_job(tmp_path, batch=128)
    assert check("--plan", "--instance-type", "ml.p4d.24xlarge")[1] == []


def test_data_that_is_not_here_is_said_and_can_be_replaced(check: Run, tmp_path: Path) -> None:
    write_job(tmp_path, batch=128, data="s3://bucket/tokens/")
    code, (finding,) = check("--plan", "--select", "MEM")
    assert (code, finding["code"], finding["severity"]) == (0, "MEM102", "note")
    assert "KeyError" in finding["message"]
    assert "--input training=FOLDER" in finding["remedy"]
    code, (finding,) = check("--plan", "--select", "MEM", "--input", "training=samples")
    assert (code, finding["code"]) == (1, "MEM101")


def test_jobs_with_the_same_script_and_arguments_share_a_trace(
    check: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = ("ml.g4dn.xlarge", "ml.g4dn.2xlarge", "ml.g5.xlarge")
    calls = "\n".join(
        f'PyTorch(entry_point="train.py", instance_count=1, instance_type="{name}").fit()' for name in types
    )
    script = TRAIN.replace('os.environ["SM_CHANNEL_TRAINING"]', "__file__").replace(".iterdir()", ".parents")
    script = script.replace('"code/train.py"', '"train.py"').replace("default=8", "default=32_000")
    write_files(
        tmp_path, {"launch.py": f"from sagemaker.pytorch import PyTorch\n\n{calls}\n", "train.py": script}
    )
    made: list[MemoryPlans] = []
    original = MemoryPlans.__init__

    def remember(plans: MemoryPlans) -> None:
        original(plans)
        made.append(plans)

    monkeypatch.setattr(MemoryPlans, "__init__", remember)
    assert check("--plan")[1] == []
    (plans,) = made
    assert len(plans.tried) == 3
    assert len(plans._traces) == 2  # the T4s are told the same, the A10G something else


def test_a_script_without_a_job_needs_an_instance_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, {"train.py": "import torch\n"})
    assert main(["check", "--plan", "train.py"]) == 0
    assert "--plan found no training job on an instance with a GPU" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--input", "training=."], ["--python", sys.executable], ["--plan", "--input", "nowhere"]]
)
def test_wrong_usage(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", *words]) == 2
