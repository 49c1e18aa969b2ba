import os

import torch
import torch.distributed as dist
from features import dataset
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["SLURM_LOCALID"])
    torch.cuda.set_device(local)
    data = dataset()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=256, shuffle=True, sampler=sampler, num_workers=6)
    model = DDP(nn.Sequential(nn.Linear(2048, 1024), nn.SiLU(), nn.Linear(1024, 1)).to(local), device_ids=[local])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(100):
        sampler.set_epoch(epoch)
        for fingerprints, energy in loader:
            fingerprints, energy = fingerprints.to(local), energy.to(local)
            loss = nn.functional.l1_loss(model(fingerprints).squeeze(1), energy)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "energy.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
