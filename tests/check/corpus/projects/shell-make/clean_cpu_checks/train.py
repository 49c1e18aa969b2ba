import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def network():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 20))


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    stored = torch.load("/scans/points.pt", map_location="cpu", weights_only=True)
    data = TensorDataset(stored["points"], stored["classes"])
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 4096, sampler=sampler, num_workers=4, pin_memory=True)
    model = DistributedDataParallel(network().cuda(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(30):
        sampler.set_epoch(epoch)
        for points, classes in loader:
            loss = nn.functional.cross_entropy(model(points.cuda()), classes.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "/scans/net.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
