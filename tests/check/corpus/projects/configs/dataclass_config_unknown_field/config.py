from __future__ import annotations

import argparse
from dataclasses import dataclass, fields


@dataclass
class Config:
    data: str = "/data/tabular.pt"
    device: str = "cpu"
    epochs: int = 20
    batch_size: int = 512
    lr: float = 1e-3
    width: int = 256

    @classmethod
    def from_args(cls) -> Config:
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", default=cls.data)
        parser.add_argument("--epochs", type=int, default=cls.epochs)
        parser.add_argument("--batch-size", type=int, default=cls.batch_size)
        parser.add_argument("--lr", type=float, default=cls.lr)
        parser.add_argument("--width", type=int, default=cls.width)
        args = vars(parser.parse_args())
        return cls(**{field.name: args[field.name] for field in fields(cls) if field.name in args})
