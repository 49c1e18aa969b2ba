"""DDP with gradient accumulation: gradients are only exchanged in the last of the small batches."""
import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import transforms
from torchvision.datasets import Food101
from torchvision.models import vit_l_16

STEPS = 4


def is_main():
    return dist.get_rank() == 0


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    if is_main():
        Food101("data", download=True)
    dist.barrier()
    data = Food101("data", transform=tf)
    sampler = DistributedSampler(data, shuffle=True, drop_last=True)
    loader = DataLoader(data, 32, sampler=sampler, num_workers=8, pin_memory=True, persistent_workers=True)
    model = vit_l_16(weights="IMAGENET1K_V1")
    model.heads.head = nn.Linear(model.heads.head.in_features, 101)
    model = DDP(model.to(device), device_ids=[device.index], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-5)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        model.train()
        for i, (x, y) in enumerate(loader, 1):
            last = i % STEPS == 0
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cuda", torch.bfloat16):
                    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device)) / STEPS
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        if is_main():
            print(f"epoch {epoch}: {STEPS * loss.item():.4f}")
            torch.save(model.module.state_dict(), "food.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
