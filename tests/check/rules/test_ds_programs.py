"""Rules about ranks judge whole programs: their files, their order and the settings that they name."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection
from support.check_helpers import write_files

LOOP = """
import torch
import torch.distributed as dist

def setup():
    dist.init_process_group("nccl")

def train(model, optimizer, loader):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""

SHARDED = """
import torch
from loop import setup, train
from torch.distributed.fsdp import FullyShardedDataParallel

setup()
model = FullyShardedDataParallel(torch.nn.Linear(8, 1).cuda())
train(model, torch.optim.SGD(model.parameters(), lr=0.1), [])
"""

PLAIN = SHARDED.replace(
    "FullyShardedDataParallel(torch.nn.Linear(8, 1).cuda())", "torch.nn.Linear(8, 1).cuda()"
)

ENGINE = """
import deepspeed
import torch

engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1))
"""

SETTINGS = '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2}'


def codes_of(files: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch, *select: str) -> list[str]:
    monkeypatch.chdir(folder)
    write_files(folder, files)
    return [hit.code for hit in check_paths(["."], CheckOptions(Selection(select=select))).hits]


def test_a_loop_that_another_file_wraps_is_not_judged_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes_of({"loop.py": LOOP, "train.py": SHARDED}, tmp_path, monkeypatch, "DS119") == []


def test_a_loop_that_no_program_wraps_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes_of({"loop.py": LOOP, "train.py": PLAIN}, tmp_path, monkeypatch, "DS119") == ["DS119"]


def test_batch_sizes_are_compared_with_the_processes_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "deepspeed --num_gpus {} train.py --deepspeed_config ds.json\n"
    files = {"train.py": ENGINE, "ds.json": SETTINGS, "run.sh": command.format(4)}
    assert codes_of(files, tmp_path, monkeypatch, "DS144") == []
    (tmp_path / "run.sh").write_text(command.format(8))
    assert codes_of({}, tmp_path, monkeypatch, "DS144") == ["DS144"]


def test_settings_of_one_name_in_two_folders_are_compared_with_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n"
    files = {"train.py": ENGINE, "a/ds.json": SETTINGS, "b/ds.json": SETTINGS, "run.sh": command}
    assert codes_of(files, tmp_path, monkeypatch, "DS144") == []


def test_what_precedes_the_accelerator_is_not_accelerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = """
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(torch.rand(64, 8), batch_size=8)
for x in loader:
    model(x).sum().backward()
    optimizer.step()
"""
    accelerated = """
from accelerate import Accelerator

accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for x in loader:
    accelerator.backward(model(x).sum())
    optimizer.step()
"""
    assert codes_of({"train.py": plain + accelerated}, tmp_path, monkeypatch, "DS133", "DS134") == []
