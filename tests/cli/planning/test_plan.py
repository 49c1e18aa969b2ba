"""`gpuproof plan` as a program: the table, the document, errors, and that nothing is changed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.slow

SCRIPT = """
import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--width", type=int, default=64)
arguments = parser.parse_args()
assert torch.cuda.is_available(), "no GPU"
data = TensorDataset(torch.randn(6400, 3, 32, 32), torch.randint(0, 10, (6400,)))
loader = DataLoader(data, batch_size=arguments.batch_size, shuffle=True, num_workers=2)
width = arguments.width
model = nn.Sequential(
    nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
Path("log.txt").write_text("started")
for epoch in range(3):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.state_dict(), "model.pt")
"""


@pytest.fixture
def cli(tmp_path: Path) -> CliSandbox:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    sandbox = CliSandbox(home, project)
    sandbox.write("train.py", SCRIPT)
    return sandbox


def test_the_table_says_what_fits_how_long_it_takes_and_what_to_use(cli: CliSandbox) -> None:
    done = cli.gpuproof("plan", "train.py", "--epochs", "2", "--", "--batch-size", "64")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("train.py: training, PyTorch ")
    assert "AdamW, batch size 64" in lines[0]
    (header,) = (line for line in lines if line.startswith("GPU "))
    assert header.split()[:5] == ["GPU", "NEEDS", "OF", "FIT", "BATCH"]
    (row,) = (line for line in lines if line.startswith("T4 "))
    assert "fits" in row
    assert "g4dn.xlarge" in row
    assert "2 epochs, 200 steps" in done.stdout
    assert re.search(r"^skipped: train\.py:\d+: writing .*log\.txt$", done.stdout, re.MULTILINE)
    assert any(line.startswith("Recommended: ") for line in lines)
    assert sorted(path.name for path in cli.project.iterdir()) == ["train.py"]


def test_the_document(cli: CliSandbox) -> None:
    words = ("--format", "json", "--region", "eu-west-1", "--on", "sagemaker", "--html", "plan.html")
    done = cli.gpuproof("plan", "train.py", *words)
    assert done.returncode == 0, done.stderr
    assert "page written to plan.html" in done.stderr
    page = (cli.project / "plan.html").read_text(encoding="utf-8")
    assert "<title>Plan of train.py (ml." in page
    document = json.loads(done.stdout)
    assert (document["version"], document["batch_size"], document["steps"]) == (1, 32, 200)
    assert document["region"] == "eu-west-1"
    assert document["recommendation"]["service"] == "sagemaker"
    first = document["gpus"][0]
    assert first["memory"]["required"]["low"] <= first["memory"]["required"]["value"]
    assert first["memory"]["fit"] == "fits"
    assert 1 < len(first["memory"]["timeline"]) <= 200
    assert first["largest_batch"] > 32
    assert document["operators"]["conv"]["flops"] > 0


def test_a_model_that_is_too_large_names_what_it_needs(cli: CliSandbox) -> None:
    done = cli.gpuproof(
        "plan", "train.py", "--on", "sagemaker", "--", "--width", "4000", "--batch-size", "2048"
    )
    assert done.returncode == 1, done.stderr
    assert "too large" in done.stdout
    assert "no GPU among these on which it is sure to fit" in done.stdout


def test_what_would_make_it_fit_is_shown_on_request(cli: CliSandbox) -> None:
    words = ("--on", "sagemaker", "--", "--width", "400", "--batch-size", "4096")
    done = cli.gpuproof("plan", "train.py", *words)
    assert "traces what would make it fit there." in done.stdout
    done = cli.gpuproof("plan", "train.py", "--fit", "T4", *words)
    assert "CHANGES FOR T4" in done.stdout, done.stderr
    assert "mixed precision (torch.autocast to float16)" in done.stdout
    assert "activation checkpointing: the model has no repeated blocks" in done.stdout


def test_a_script_that_fails_shows_its_line(cli: CliSandbox) -> None:
    cli.write("broken.py", "import torch\n\nraise ValueError('no data')\n")
    done = cli.gpuproof("plan", "broken.py")
    assert done.returncode == 1, done.stderr
    assert "broken.py, line 3: The script raised ValueError: no data" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "SCRIPT is missing, and this folder has no gpuproof.yaml."),
        (("none.py",), "There is no script none.py"),
        (("train.py", "--gpu", "RX580"), "The catalogue has no GPU RX580"),
        (("train.py", "--region", "us-esat-1"), "Did you mean us-east-1?"),
        (("train.py", "--deadline", "soon"), "--deadline"),
        (("train.py", "--epochs", "0"), "--epochs must be at least 1"),
        (("train.py", "--budget", "-1"), "--budget must be more than 0"),
        (("train.py", "--html", "none/plan.html"), "--html: there is no folder none"),
        (("--history", "--html", "plan.html"), "--html is for the plan of a script"),
    ],
)
def test_wrong_usage(cli: CliSandbox, words: tuple[str, ...], said: str) -> None:
    done = cli.gpuproof("plan", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


JOB = """
entry_point: train.py
source_dir: code
hyperparameters: {batch-size: 16, width: 32}
inputs: {training: s3://bucket/data}
resources: {gpu: "A10G:1", region: eu-west-1}
"""
READS_CHANNEL = SCRIPT.replace(
    "assert torch", 'import os\nassert list(Path(os.environ["SM_CHANNEL_TRAINING"]).iterdir())\nassert torch'
)


def test_a_script_with_the_folder_of_a_channel(cli: CliSandbox) -> None:
    cli.write("train.py", READS_CHANNEL)
    cli.write("samples/one.txt", "1")
    done = cli.gpuproof("plan", "train.py", "--input", "training=samples", "--format", "json")
    assert done.returncode == 0, done.stderr


def test_a_job_file_with_a_folder_in_place_of_its_channel(cli: CliSandbox) -> None:
    cli.write("gpuproof.yaml", JOB)
    cli.write("code/train.py", READS_CHANNEL)
    cli.write("samples/one.txt", "1")
    done = cli.gpuproof("plan", "gpuproof.yaml", "--format", "json")
    assert done.returncode == 2, done.stdout
    assert "--input training=FOLDER" in done.stderr
    # Without SCRIPT, the folder's job file is planned, as `gpuproof run` runs it.
    done = cli.gpuproof("plan", "--input", "training=samples", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["batch_size"], document["region"], document["gpus_per_instance"]) == (16, "eu-west-1", 1)
    done = cli.gpuproof("plan", ".", "--input", "other=samples")
    assert (done.returncode, "no channel other" in done.stderr) == (2, True)
    assert sorted(path.name for path in (cli.project / "code").iterdir()) == ["train.py"]


HANDLER = """
import json
import torch


def model_fn(model_dir):
    return torch.nn.Linear(64, 10).to("cuda" if torch.cuda.is_available() else "cpu")


def input_fn(body, content_type):
    return torch.tensor(json.loads(body))


def predict_fn(data, model):
    return model(data.cuda())
"""


def test_a_handler_is_planned_by_its_requests(cli: CliSandbox) -> None:
    cli.write("inference.py", HANDLER)
    cli.write("request.json", json.dumps([[0.5] * 64] * 2))
    done = cli.gpuproof("plan", "inference.py", "--request", "request.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("inference.py: serving, PyTorch ")
    assert lines[0].endswith(", 2 rows")
    assert "EPOCH" not in done.stdout.upper()
    header = next(line for line in lines if line.startswith("GPU"))
    assert header.split() == [
        "GPU",
        "NEEDS",
        "OF",
        "FIT",
        "BATCH",
        "REQUEST",
        "BOUND",
        "BY",
        "PER",
        "S",
        "EC2",
        "SPOT",
        "SAGEMAKER",
    ]
    assert any(line.startswith("Recommended: ") and "requests a second" in line for line in lines)
    assert "ml.g4dn.xlarge" in done.stdout


def test_options_of_training_make_no_sense_for_a_handler(cli: CliSandbox) -> None:
    cli.write("inference.py", HANDLER)
    done = cli.gpuproof("plan", "inference.py", "--epochs", "3", "--deadline", "8h")
    assert done.returncode == 2
    assert "--epochs, --deadline: only for scripts" in done.stderr


def test_a_handler_that_takes_no_zeros_asks_for_a_request(cli: CliSandbox) -> None:
    cli.write("inference.py", HANDLER.replace("json.loads(body)", 'json.loads(body)["rows"]'))
    done = cli.gpuproof("plan", "inference.py")
    assert done.returncode == 1
    assert "--request FILE" in done.stderr
