import os

import torch
import torch.distributed as dist
from networks import Generator
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    rank = int(os.environ["SLURM_PROCID"])
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=1)
    torch.cuda.set_device(rank)
    stored = torch.load("/scratch/paired.pt", map_location="cpu", weights_only=True)
    data = TensorDataset(stored["source"], stored["target"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=6, pin_memory=True)
    model = DistributedDataParallel(Generator().cuda(), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for epoch in range(100):
        sampler.set_epoch(epoch)
        for source, target in loader:
            loss = nn.functional.l1_loss(model(source.cuda(non_blocking=True)), target.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(epoch, loss.item(), flush=True)
            torch.save(model.module.state_dict(), "/scratch/generator.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
