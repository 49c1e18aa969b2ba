import torch
from torch import nn
from torch.utils.data import TensorDataset

from hands.context import Context
from hands.trainer import Trainer


def dataset(path):
    stored = torch.load(path, map_location="cpu", weights_only=True)
    return TensorDataset(stored["joints"].flatten(1), stored["signs"])


def main():
    context = Context.create()
    model = nn.Sequential(nn.Linear(63, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 26))
    trainer = Trainer(context, model, dataset("/data/hands-train.pt"), dataset("/data/hands-val.pt"))
    trainer.fit(30, "/data/hands.pt")
    context.close()


if __name__ == "__main__":
    main()
