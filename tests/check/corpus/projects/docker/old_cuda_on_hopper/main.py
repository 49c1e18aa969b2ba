import os

import torch
import torch.distributed as dist
from climate import Climate
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    data = Climate("/data/era5.h5")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=12, pin_memory=True)
    model = nn.Sequential(nn.Conv2d(20, 256, 5, padding=2), nn.GELU(), nn.Conv2d(256, 20, 5, padding=2)).cuda()
    model = DDP(model, device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for now, following in loader:
            now, following = now.cuda(non_blocking=True), following.cuda(non_blocking=True)
            loss = nn.functional.mse_loss(model(now), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "/data/out.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
