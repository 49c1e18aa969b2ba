"""SageMaker with torchrun; rank 0 writes the model, and an error ends the job with a code."""

import argparse
import os
import sys
import traceback

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def train(args):
    is_distributed = len(os.environ.get("SM_HOSTS", "[]")) > 12 or "LOCAL_RANK" in os.environ
    use_cuda = int(os.environ.get("SM_NUM_GPUS", 0)) > 0
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device(f"cuda:{local_rank}" if use_cuda else "cpu")
    if is_distributed:
        dist.init_process_group(backend="nccl" if use_cuda else "gloo")
        if use_cuda:
            torch.cuda.set_device(local_rank)
    data = TensorDataset(torch.randn(1000, 8), torch.randn(1000, 1))
    sampler = DistributedSampler(data) if is_distributed else None
    loader = DataLoader(data, 32, shuffle=sampler is None, sampler=sampler, num_workers=2)
    model = nn.Linear(8, 1).to(device)
    if is_distributed:
        model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
    if not is_distributed or dist.get_rank() == 0:
        path = os.path.join(args.model_dir, "model.pth")
        torch.save(getattr(model, "module", model).state_dict(), path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--backend", type=str, default=None)
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    args, _ = parser.parse_known_args()
    try:
        train(args)
    except Exception:
        traceback.print_exc()
        sys.exit(255)
