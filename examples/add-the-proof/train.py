"""Trains a small classifier, under torchrun with one process for each GPU. It knows nothing of GPUproof."""

import os

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 200, 256


def main():
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_gpu else torch.device("cpu")
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
    launched = "WORLD_SIZE" in os.environ
    if launched:
        torch.distributed.init_process_group("nccl" if has_gpu else "gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    centers = torch.randn(10, 64, generator=torch.Generator().manual_seed(0)).to(device)
    for step in range(STEPS):
        labels = torch.randint(10, (BATCH,), device=device)
        loss = cross_entropy(model(centers[labels] + torch.randn(BATCH, 64, device=device)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 and os.environ.get("RANK", "0") == "0":
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    if launched:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
