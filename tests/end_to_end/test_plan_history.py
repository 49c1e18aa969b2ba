"""A plan, a run of the same script on a machine with a stub of NVML, and what `gpuproof plan --history` says of both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox
from support.nvml_stub import STAYS, Scenario, build_library

pytestmark = pytest.mark.journey

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import gpuproof.runtime as rt

device = "cuda" if torch.cuda.is_available() else "cpu"
loader = DataLoader(TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,))), batch_size=8)
model = nn.Linear(16, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
for inputs, labels in loader:
    loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rt.log_throughput(len(inputs))
"""


FROM_PYTHON = """
import gpuproof

gpuproof.run(gpuproof.TrainingJob(entry_point="train.py", arguments=["0.1"], instance_type="ml.g5.xlarge"))
"""


def test_runs_are_compared_with_their_plans_and_correct_the_next_one(
    sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks")
    sandbox.environment.update(scenario.environment(build_library(tmp_path_factory.getbasetemp() / "stub")))
    scenario.gpu(0).when_registered(tmp_path / "pid", util=87, memory_mib=3000).write()
    stays = STAYS.format(files=[str(tmp_path / "pid")], looks=str(tmp_path / "looks"), count=4)
    sandbox.write("train.py", SCRIPT + stays)
    empty = sandbox.gpuproof("plan", "--history")
    assert (empty.returncode, "No run has been compared" in empty.stdout) == (0, True), empty.stderr
    planned = sandbox.gpuproof("plan", "train.py", "--on", "ec2", "--format", "json", "--", "0.1")
    assert planned.returncode == 0, planned.stderr
    before = next(item for item in json.loads(planned.stdout)["gpus"] if item["gpu"] == "A10G")

    done = sandbox.gpuproof("run", "train.py", "--instance-type", "ml.g5.xlarge", "--", "0.1")
    assert done.returncode == 0, done.stderr
    assert "memory 2.9 GiB, planned" in done.stderr + done.stdout
    mfu = mfu_of_newest(sandbox)
    # A product forward and one backward, for the weights: 2 x 2 x 8 x 16 x 4.
    assert (mfu["flops_per_step"], mfu["source"], mfu["lower_bound"]) == (2048, "plan", True)
    assert mfu["peak_flops"] == 35e12
    assert "of A10G's 35 TFLOP/s in TF32 (FLOPs from gpuproof plan" in done.stderr + done.stdout
    other = sandbox.gpuproof("run", "train.py", "--instance-type", "ml.g5.xlarge", "--", "0.2")
    assert "planned" not in other.stderr + other.stdout
    assert mfu_of_newest(sandbox) is None

    from_python = subprocess.run(
        [sys.executable, "-c", FROM_PYTHON],
        cwd=sandbox.project,
        env=sandbox._environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert from_python.returncode == 0, from_python.stderr

    document = json.loads(sandbox.gpuproof("plan", "--history", "--format", "json").stdout)
    one, two = document["comparisons"]
    assert two["run"] != one["run"]
    assert (two["gpu"], two["memory"]["measured"]) == (one["gpu"], one["memory"]["measured"])
    assert (one["gpu"], one["script"], one["batch"]) == ("A10G", "train.py", 8)
    assert one["memory"]["measured"] == 3000 << 20
    assert one["memory"]["shown"][1] == pytest.approx(before["memory"]["required"]["value"], rel=1e-4)
    assert one["time"]["measured"] > 0
    assert document["corrections"] == []

    path = sandbox.runs.parent / "plan-history.jsonl"
    assert '"0.1"' not in path.read_text()
    last = path.read_text().splitlines()[-1]
    with path.open("a") as file:
        file.writelines(last.replace(one_key(last), f"{number:032}") + "\n" for number in range(4))
    table = sandbox.gpuproof("plan", "--history").stdout
    assert "corrected: memory on A10G" in table
    again = sandbox.gpuproof("plan", "train.py", "--on", "ec2", "--format", "json", "--", "0.1")
    after = next(item for item in json.loads(again.stdout)["gpus"] if item["gpu"] == "A10G")
    old, new = before["memory"]["required"], after["memory"]["required"]
    assert old["value"] < new["value"] < 3000 << 20
    assert new["high"] / new["low"] < old["high"] / old["low"]
    assert any("your own runs" in text for text in json.loads(again.stdout)["warnings"])


def mfu_of_newest(sandbox: CliSandbox) -> dict[str, Any] | None:
    newest = max(sandbox.runs.glob("*/verdict.json"), key=lambda path: path.stat().st_mtime)
    return json.loads(newest.read_text()).get("mfu")


def one_key(line: str) -> str:
    return json.loads(line)["key"]
