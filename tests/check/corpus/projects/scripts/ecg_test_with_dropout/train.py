import sys

import torch
from torch import nn

from ecg import loader
from encoder import Encoder


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    hits, total = 0, 0
    for x, y in batches:
        hits += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
        total += len(y)
    return hits / total


def main(path):
    device = torch.device("cuda")
    encoder = Encoder().to(device)
    model = torch.compile(encoder)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    train, valid = loader(path, "train"), loader(path, "valid")
    for epoch in range(30):
        model.train()
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: accuracy {validate(model, valid, device):.4f}")
    torch.save(encoder.state_dict(), "encoder.pt")


if __name__ == "__main__":
    main(sys.argv[1])
