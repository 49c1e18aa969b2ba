import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Field(nn.Module):
    """A field of colour and density."""

    def __init__(self, width=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(63, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )

    def forward(self, points):
        waves = [points]
        for power in range(10):
            waves += [torch.sin(2.0**power * points), torch.cos(2.0**power * points)]
        return self.net(torch.cat(waves, dim=-1))


def main():
    dist.init_process_group("nccl")
    gpu = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    stored = torch.load("/data/rays.pt", map_location="cpu", weights_only=True)
    rays = TensorDataset(stored["points"], stored["values"])
    sampler = DistributedSampler(rays)
    loader = DataLoader(rays, 8192, sampler=sampler, num_workers=4, pin_memory=True)
    model = DistributedDataParallel(Field().cuda(gpu), device_ids=[gpu])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for points, values in loader:
            loss = nn.functional.mse_loss(model(points.cuda(gpu)), values.cuda(gpu))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "/data/field.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
