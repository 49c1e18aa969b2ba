"""The rank of a script, which its launcher would set."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

SCRIPT = """
import os
import torch
import torch.distributed as dist

{lines}
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    model(torch.ones(4, 8).cuda()).sum().backward()
    optimizer.step()
"""

READS = SCRIPT.format(
    lines="""
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
assert dist.get_world_size() == int(os.environ["WORLD_SIZE"])
"""
)
ASKS = SCRIPT.format(
    lines="""
assert int(os.environ.get("RANK", -1)) == -1 and os.getenv("LOCAL_RANK") is None and "RANK" not in os.environ
assert os.environ["PATH"] == os.environ.get("PATH")
"""
)


def test_a_script_without_a_launcher_that_needs_its_rank_is_a_single_process(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, READS)
    notes = [note for note in trace.assumptions if note.code == "launcher"]
    assert ["LOCAL_RANK" in note.message for note in notes] == [True, False]
    assert notes[0].line == 7


def test_a_script_that_asks_whether_there_is_a_launcher_is_told_no(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, ASKS)
    assert not [note for note in trace.assumptions if note.code == "launcher"]


def test_torchrun_sets_the_rank_of_one_process_too(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, READS, "--launcher", "torchrun", "--gpus", "1")
    assert not [note for note in trace.assumptions if note.code == "launcher"]


def test_mpi_sets_its_own_variables(tmp_path: Path) -> None:
    script = SCRIPT.format(
        lines="assert os.environ['OMPI_COMM_WORLD_SIZE'] == '4' and 'RANK' not in os.environ"
    )
    assert trace_of(tmp_path, script, "--launcher", "mpi", "--gpus", "4").steps == 3


def test_a_job_that_starts_one_process_has_no_rank(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, READS, "--launcher", "none", "--gpus", "4")
    assert failure.code == "no-launcher"
    assert "distribution: torchrun" in failure.remedy
