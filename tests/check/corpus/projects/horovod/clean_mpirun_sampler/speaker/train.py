import argparse

import horovod.torch as hvd
import torch
from torch import nn

from speaker.data import make_loader


def mean_over_ranks(value, name):
    return hvd.allreduce(torch.tensor(float(value)), name=name).item()


def train_epoch(model, loader, optimizer, device):
    model.train()
    for features, speakers in loader:
        features, speakers = features.to(device), speakers.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features), speakers)
        loss.backward()
        optimizer.step()


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = sum((model(f.to(device)).argmax(1) == s.to(device)).sum().item() for f, s in loader)
    return mean_over_ranks(right / len(loader.sampler), "accuracy")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    hvd.init()
    device = torch.device(f"cuda:{hvd.local_rank()}")
    torch.cuda.set_device(device)
    train, val = make_loader(args.data, "train", 128), make_loader(args.data, "val", 128)
    model = nn.Sequential(
        nn.Conv1d(80, 256, 5), nn.ReLU(), nn.BatchNorm1d(256), nn.Conv1d(256, 256, 5, dilation=2), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(256, len(train.dataset.names)),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 * hvd.size())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.fp16
    )
    for epoch in range(args.epochs):
        train.sampler.set_epoch(epoch)
        train_epoch(model, train, optimizer, device)
        score = accuracy(model, val, device)
        if hvd.rank() == 0:
            print(epoch, score, flush=True)
            torch.save(model.state_dict(), f"/shared/out/speaker-{epoch:02d}.pt")


if __name__ == "__main__":
    main()
