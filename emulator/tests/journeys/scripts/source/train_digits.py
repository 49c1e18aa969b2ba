"""Trains a small CNN on digits made of noise, on several hosts, in the style of SageMaker's MNIST example for PyTorch.

Rank and world size come from torchrun, or else from the names of the hosts; the rendezvous is at MASTER_ADDR.
"""

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # before the group exists, which its default arguments would hold
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--fail-on", default="")
arguments = parser.parse_args()

hosts, host = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"]
if "RANK" not in os.environ:
    os.environ["RANK"] = str(hosts.index(host))
    os.environ["WORLD_SIZE"] = str(len(hosts))
dist.init_process_group(backend=arguments.backend)
rank, size = dist.get_rank(), dist.get_world_size()

total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)

torch.manual_seed(1)
images = torch.randn(64, 1, 28, 28)
numbers = torch.arange(64)
labels = numbers % 10
sampler = DistributedSampler(numbers)
loader = DataLoader(TensorDataset(images, labels, numbers), batch_size=8, sampler=sampler)
layers = nn.Sequential(nn.Conv2d(1, 4, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(576, 10))
model = nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen: list[int] = []
for _ in range(arguments.epochs):
    for batch, targets, indices in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), targets)
        loss.backward()
        optimizer.step()
        seen += indices.tolist()
        if arguments.fail_on == host:
            raise ValueError(f"bad batch on {host}")
weights = sum(float(parameter.sum()) for parameter in layers.parameters())
found = {
    "rank": rank,
    "size": size,
    "total": total.item(),
    "seen": sorted(seen),
    "weights": round(weights, 5),
}
print(json.dumps(found), flush=True)
if rank == 0:
    torch.save(layers.state_dict(), Path(os.environ["SM_MODEL_DIR"]) / "model.pt")
# A thread of Gloo that releases a Python object while Python ends aborts the process ("terminate called without an active
# exception"; torch 2.13, Python before 3.14). The threads end with the group, which DistributedDataParallel holds.
for held in ("logger", "reducer", "process_group"):
    setattr(model, held, None)
dist.destroy_process_group()
