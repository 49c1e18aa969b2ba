"""Single-machine data parallel training started with mp.spawn."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import transforms


def init(rank, world_size):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29511"
    dist.init_process_group("nccl", rank=0, world_size=world_size)
    torch.cuda.set_device(rank)


def worker(rank, world_size, epochs):
    init(rank, world_size)
    tf = transforms.Compose([transforms.RandomCrop(32, 4), transforms.ToTensor()])
    data = torchvision.datasets.CIFAR100("data", train=True, transform=tf)
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank)
    loader = DataLoader(data, batch_size=128, sampler=sampler, num_workers=4, pin_memory=True)
    model = DDP(torchvision.models.wide_resnet50_2(num_classes=100).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    loss_fn = torch.nn.CrossEntropyLoss()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x.to(rank)), y.to(rank))
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(epoch, loss.item())
    if rank == 0:
        torch.save(model.module.state_dict(), "wrn.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    torchvision.datasets.CIFAR100("data", download=True)
    gpus = torch.cuda.device_count()
    mp.spawn(worker, args=(gpus, 100), nprocs=gpus)
