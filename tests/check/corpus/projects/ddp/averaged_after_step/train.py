import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets, transforms

from averaging import average_gradients, broadcast_parameters


def shard(dataset, rank, world, epoch):
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch))
    return Subset(dataset, order[rank::world].tolist())


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 11 * 11, 10),
    ).to(device)
    broadcast_parameters(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = datasets.MNIST("/tmp/mnist", download=True, transform=transforms.ToTensor()) if rank == 0 else None
    dist.barrier()
    data = data or datasets.MNIST("/tmp/mnist", transform=transforms.ToTensor())
    for epoch in range(5):
        loader = DataLoader(shard(data, rank, world, epoch), 128, num_workers=2, drop_last=True, pin_memory=True)
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            opt.step()
            average_gradients(model)
        total = loss.detach().clone()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: {total.item() / world:.4f}")
    if rank == 0:
        torch.save(model.state_dict(), "mnist.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
