import argparse
import os

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import transforms


def make_loader(folder, batch_size, world_size):
    tf = transforms.Compose([transforms.Resize((256, 256)), transforms.ToTensor()])
    train_set = torchvision.datasets.ImageFolder(folder, tf)
    sampler = DistributedSampler(train_set) if world_size > 1 else None
    return DataLoader(train_set, batch_size, shuffle=sampler is None, sampler=sampler, num_workers=6, pin_memory=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--weights")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    dist.init_process_group("nccl", init_method="env://")
    gpu = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    net = torchvision.models.resnext50_32x4d(num_classes=120)
    if args.weights:
        net.load_state_dict(torch.load(args.weights, map_location="cpu", weights_only=True))
    net = DDP(net.cuda(gpu), device_ids=[gpu])
    loader = make_loader(args.folder, 64, dist.get_world_size())
    opt = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(net(x.cuda(gpu)), y.cuda(gpu))
            opt.zero_grad()
            loss.backward()
            opt.step()
        if dist.get_rank() == 0:
            torch.save(net.module.state_dict(), "dogs.pt")
            print("epoch", epoch, "loss", loss.item())
        dist.barrier()


if __name__ == "__main__":
    main()
