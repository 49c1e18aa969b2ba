"""`gather`, `reduce`, printing and gradient accumulation, with two real processes and alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.runtime_script import Script

pytestmark = pytest.mark.slow

CODE = """
import atexit, json, pathlib, torch
from torch.nn.parallel import DistributedDataParallel
import gpuproof.runtime as rt

def names_of_threads():
    return sorted(file.read_text().strip() for file in pathlib.Path("/proc/self/task").glob("*/comm"))

@atexit.register  # runs after what gpuproof.runtime registers later
def report_threads():
    pathlib.Path(f"at-exit-{rank}.json").write_text(json.dumps(names_of_threads()))

with rt.distributed(allow_cpu=True) as group:
    rank, size = group.rank, group.world_size
    rows = torch.arange(rank + 1, dtype=torch.float32).reshape(-1, 1) + 10 * rank
    found = {
        "rows": rt.gather(rows).flatten().tolist(),
        "scalars": rt.gather(torch.tensor(rank)).tolist(),
        "flags": rt.gather({"ok": [torch.tensor([rank == 0])]})["ok"][0].tolist(),
        "number": group.gather(rank + 0.5).tolist(),
        "objects": rt.gather_object({"rank": rank}),
        "sum": rt.reduce(torch.tensor([1, rank])).tolist(),
        "mean": group.reduce(torch.tensor([1, rank]), "mean").tolist(),
        "scaled": rt.reduce((torch.tensor(2.0),), scale=0.5)[0].item(),
    }
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    wrapped = group.wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    accumulated = rt.accumulation(wrapped, steps=2)
    stepped, exchanges = [], []
    for batch in accumulated.batches([torch.full((1, 1), float(number + rank)) for number in range(5)]):
        accumulated.backward(wrapped(batch).sum())
        exchanges.append(getattr(wrapped, "require_backward_grad_sync", None))
        stepped.append(accumulated.step(optimizer))
    found |= {"threads": names_of_threads(), "stepped": stepped, "exchanges": exchanges, "weight": model.weight.item()}
    rt.print("printed on", rank)
    group.print("printed by", rank)
    print(json.dumps({"rank": rank, **found}) + "\\n", end="", flush=True)
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("collectives")
    (folder / "train.py").write_text(CODE)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    documents = [json.loads(line) for line in lines if line.startswith("{")]
    for document in documents:
        document["threads at exit"] = json.loads((folder / f"at-exit-{document['rank']}.json").read_text())
    return done.stdout, sorted(documents, key=lambda document: document["rank"])


@pytest.mark.xdist_group("torchrun")
def test_every_process_gets_the_rows_of_all(two: tuple[str, list[dict[str, Any]]]) -> None:
    for report in two[1]:
        assert report["rows"] == [0.0, 10.0, 11.0]
        assert report["scalars"] == [0, 1]
        assert report["flags"] == [True, False]
        assert report["number"] == [0.5, 1.5]
        assert report["objects"] == [{"rank": 0}, {"rank": 1}]


@pytest.mark.xdist_group("torchrun")
def test_every_process_gets_the_sum_or_the_mean(two: tuple[str, list[dict[str, Any]]]) -> None:
    for report in two[1]:
        assert (report["sum"], report["mean"], report["scaled"]) == ([2, 1], [1.0, 0.5], 2.0)


@pytest.mark.xdist_group("torchrun")
def test_only_the_first_rank_prints(two: tuple[str, list[dict[str, Any]]]) -> None:
    printed = [line for line in two[0].splitlines() if line.startswith("printed")]
    assert printed == ["printed on 0", "printed by 0"]


@pytest.mark.xdist_group("torchrun")
def test_gradients_are_exchanged_and_applied_every_other_batch_and_at_the_end(
    two: tuple[str, list[dict[str, Any]]],
) -> None:
    for report in two[1]:
        assert report["stepped"] == [False, True, False, True, True]
        assert report["exchanges"] == [False, True, False, True, True]
        # Means over two batches (the last group has one), and over two processes with inputs that differ by 1.
        assert report["weight"] == pytest.approx(-((0.5 + 0.5) + (2.5 + 0.5) + (4 + 0.5) / 2))


@pytest.mark.xdist_group("torchrun")
def test_no_thread_of_gloo_runs_when_the_interpreter_ends(two: tuple[str, list[dict[str, Any]]]) -> None:
    # The model still refers to the process group; a thread that then releases a Python object aborts the process.
    for report in two[1]:
        assert any("gloo" in name for name in report["threads"])
        assert not any("gloo" in name for name in report["threads at exit"])


def test_alone_everything_works_too(script: Script) -> None:
    lines = script(CODE, imported="torch").splitlines()
    assert lines[:2] == ["printed on 0", "printed by 0"]
    found = json.loads(lines[2])
    assert (found["rows"], found["scalars"], found["objects"]) == ([0.0], [0], [{"rank": 0}])
    assert (found["sum"], found["mean"], found["scaled"]) == ([1, 0], [1.0, 0.0], 1.0)
    assert found["stepped"] == [False, True, False, True, True]
    assert found["weight"] == pytest.approx(-(0.5 + 2.5 + 2.0))


def test_wrong_use_is_an_error_that_says_what_to_do(script: Script) -> None:
    output = script(
        """
import torch, gpuproof.runtime as rt
calls = (
    lambda: rt.gather("text"), lambda: rt.reduce(1.0, "max"), lambda: rt.accumulation(None, 0),
    lambda: rt.device(3), lambda: rt.setup(seed="one"), lambda: rt.setup(threads=-1), lambda: rt.gather(1),
)
for call in calls:
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
""",
        imported="torch",
        WORLD_SIZE="2",
    )
    instead = "To use GPU 3: setup(visible_devices=3) before the first operation"
    assert output.splitlines() == [
        "TypeError gather() takes PyTorch tensors and numbers, not str: gather_object takes any object",
        "ValueError reduction='max': use one of sum, mean, none",
        "ValueError steps=0: must be a whole number from 1",
        f"ValueError device(3): it takes no index; under torchrun it is the GPU of LOCAL_RANK. {instead}",
        "ValueError seed='one': must be a whole number from 0, such as seed=1",
        "ValueError threads=-1: must be a whole number from 0, such as threads=1",
        "RuntimeError there are 2 processes: call distributed() before gather() and reduce()",
    ]


def test_a_job_without_gpus_runs_on_the_cpu(script: Script) -> None:
    code = "import torch, gpuproof.runtime as rt\nprint(rt.device(), rt.distributed().world_size)"
    assert script(code, imported="torch", GPUPROOF_EXPECTED_GPUS="0") == "cpu 1\n"
    assert "GpuRequired" in script.done(code, imported="torch", GPUPROOF_EXPECTED_GPUS="1").stderr
