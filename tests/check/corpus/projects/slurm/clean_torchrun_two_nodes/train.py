import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, models, transforms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    transform = transforms.Compose(
        [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    )
    data = datasets.ImageFolder(os.path.join(args.data, "train"), transform)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=128, sampler=sampler, num_workers=8, pin_memory=True)
    model = DDP(models.resnet50().to(local), device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    first = 0
    if os.path.exists(args.checkpoint):
        stored = torch.load(args.checkpoint, map_location=f"cuda:{local}", weights_only=True)
        model.module.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        scheduler.load_state_dict(stored["scheduler"])
        first = stored["epoch"] + 1
    criterion = nn.CrossEntropyLoss().to(local)
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for images, labels in loader:
            images, labels = images.to(local, non_blocking=True), labels.to(local, non_blocking=True)
            loss = criterion(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        scheduler.step()
        if dist.get_rank() == 0:
            state = {
                "epoch": epoch,
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            }
            torch.save(state, args.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
