"""Alone or under torchrun: the ranks are optional."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Calls(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.pt"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        call = torch.load(path, map_location="cpu", weights_only=True)[:, :, :200]
        return nn.functional.pad(call, (0, 200 - call.shape[-1])), int(path.stem.split("_")[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    world = int(os.environ.get("WORLD_SIZE", 1))
    local = int(os.environ.get("LOCAL_RANK", 0))
    if world > 1:
        dist.init_process_group("nccl")
    torch.cuda.set_device(local)
    data = Calls("/data/calls")
    sampler = DistributedSampler(data) if world > 1 else None
    loader = DataLoader(data, 64, shuffle=sampler is None, sampler=sampler, num_workers=7, pin_memory=True)
    net = nn.Sequential(
        nn.Conv2d(1, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 18),
    ).cuda()
    model = DistributedDataParallel(net, device_ids=[local]) if world > 1 else net
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for calls, species in loader:
            loss = nn.functional.cross_entropy(model(calls.cuda()), species.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if local == 0:
            print(epoch, loss.item(), flush=True)
    if local == 0:
        torch.save(net.state_dict(), "bats.pt")
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
