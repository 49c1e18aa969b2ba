import os

import torch
import torch.distributed as dist
from cells import Cells
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    data = Cells("/data/cells")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 1, 1)
    ).cuda()
    net = DistributedDataParallel(net, device_ids=[local])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(30):
        sampler.set_epoch(epoch)
        for images, masks in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(net(images.cuda()), masks.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(net.module.state_dict(), "/data/net.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
