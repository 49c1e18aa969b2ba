import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class Strokes(nn.Module):
    """Completes drawings, given as sequences of pen movements."""

    def __init__(self, width=256):
        super().__init__()
        self.rnn = nn.GRU(3, width, 2, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, moves):
        return self.head(self.rnn(moves)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    device = torch.device("cuda")
    moves = torch.load("/data/strokes.pt", map_location="cpu", weights_only=True)
    loader = DataLoader(TensorDataset(moves), batch_size=128, shuffle=True, num_workers=4, pin_memory=True)
    model = Strokes().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for (batch,) in tqdm(loader, desc=f"epoch {epoch}"):
            batch = batch.to(device, non_blocking=True)
            loss = nn.functional.mse_loss(model(batch[:, :-1]), batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "/runs/strokes.pt")


if __name__ == "__main__":
    main()
