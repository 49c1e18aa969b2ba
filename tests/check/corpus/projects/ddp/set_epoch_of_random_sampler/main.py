import argparse
from functools import partial

import torch
import torch.distributed as dist
from torchvision.models import regnet_y_8gf

from data import train_loader
from engine import Engine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--workers", type=int, default=10)
    args = parser.parse_args()
    dist.init_process_group(backend="nccl")
    engine = Engine(
        regnet_y_8gf(weights=None),
        partial(torch.optim.SGD, lr=0.4, momentum=0.9, weight_decay=5e-5),
        torch.nn.CrossEntropyLoss(label_smoothing=0.1),
        "runs/regnet",
    )
    loader = train_loader(args.root, args.batch_size, args.workers)
    for epoch in range(args.epochs):
        engine.run_epoch(epoch, loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
