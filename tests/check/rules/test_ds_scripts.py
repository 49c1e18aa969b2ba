"""Whole training scripts as people write them, against the rules about processes that work together."""

from pathlib import Path

import pytest

from gpuproof.linter.engine import CheckOptions, check_paths
from gpuproof.linter.registry import Selection

HOST_RANKS = """
import argparse, json, os
import torch
import torch.distributed as dist
import torch.utils.data

def train(args):
    if len(args.hosts) > 1:
        rank = args.hosts.index(args.current_host)
        dist.init_process_group(backend="gloo", rank=rank, world_size=len(args.hosts))
        print("rank {} of {}".format(dist.get_rank(), dist.get_world_size()))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = torch.utils.data.DataLoader([], batch_size=8, shuffle=True)
    model = torch.nn.DataParallel(torch.nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = (model(x.to(device)) - y.to(device)).sum()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), os.path.join(args.model_dir, "model.pth"))

parser = argparse.ArgumentParser()
parser.add_argument("--hosts", type=json.loads, default=os.environ["SM_HOSTS"])
parser.add_argument("--current-host", default=os.environ["SM_CURRENT_HOST"])
parser.add_argument("--model-dir", default=os.environ["SM_MODEL_DIR"])
parser.add_argument("--epochs", type=int, default=2)
train(parser.parse_args())
"""

SPAWNED = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

def save_checkpoint(state, best):
    torch.save(state, "checkpoint.pth")

def main_worker(gpu, n):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=gpu, world_size=n)
    if gpu is not None:
        torch.cuda.set_device(gpu)
        model = DDP(torch.nn.Linear(8, 1).cuda(gpu), device_ids=[gpu])
    else:
        model = torch.nn.Linear(8, 1).cuda()
        model = DDP(model)
    data = list(range(9))
    sampler = DistributedSampler(data)
    for epoch in range(90):
        sampler.set_epoch(epoch)
        for x in DataLoader(data, sampler=sampler):
            model(x).sum().backward()
        {guard}save_checkpoint(model.state_dict(), False)

mp.spawn(main_worker, nprocs=4, args=(4,))
"""


def codes_of(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(script)
    report = check_paths(["."], CheckOptions(Selection(select=("DS1",), ignore=("DS109", "DS110"))))
    return {hit.code for hit in report.hits}


def test_a_group_over_hosts_without_ddp_and_its_data_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes_of(HOST_RANKS, tmp_path, monkeypatch) == {"DS107", "DS119"}


def test_a_spawned_worker_that_saves_on_every_rank_is_found_through_its_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert codes_of(SPAWNED.format(guard=""), tmp_path, monkeypatch) == {"DS114"}


def test_a_guard_in_the_caller_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert codes_of(SPAWNED.format(guard="if gpu == 0: "), tmp_path, monkeypatch) == set()
