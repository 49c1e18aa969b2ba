import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms


def setup():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(0)
    return 0


def build_loader(args):
    tf = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    dataset = datasets.ImageFolder(os.path.join(args.data, "train"), tf)
    train_loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        sampler=DistributedSampler(dataset, shuffle=True),
        num_workers=8,
        pin_memory=True,
        persistent_workers=True,
    )
    return train_loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--output", default="runs/r50")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    local_rank = setup()
    loader = build_loader(args)
    model = models.resnet50(weights=None).cuda(local_rank)
    model = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * dist.get_world_size(), momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss().cuda(local_rank)
    os.makedirs(args.output, exist_ok=True)
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)
        model.train()
        for step, (images, target) in enumerate(loader):
            images = images.cuda(local_rank, non_blocking=True)
            target = target.cuda(local_rank, non_blocking=True)
            loss = criterion(model(images), target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % 100 == 0 and dist.get_rank() == 0:
                print(f"{epoch}:{step} loss={loss.item():.3f}")
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), os.path.join(args.output, "last.pt"))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
