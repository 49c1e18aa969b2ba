import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset

import aurora.nets  # noqa: F401  (registers the networks)
from aurora.callbacks import LossHistory, SaveBest
from aurora.registry import build
from aurora.trainer import Trainer


def loader(path, train):
    stored = torch.load(path, map_location="cpu", weights_only=True)
    return DataLoader(
        TensorDataset(stored["noisy"], stored["clean"]), 32, shuffle=train, num_workers=4, pin_memory=True
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="unet")
    parser.add_argument("--width", type=int, default=32)
    args = parser.parse_args()
    loaders = {"train": loader("train.pt", True), "val": loader("val.pt", False)}
    trainer = Trainer(build(args.model, width=args.width), loaders, [LossHistory(), SaveBest("best.pt")])
    trainer.fit(50)
