import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(channel, batch_size, shuffle):
    blob = torch.load(os.path.join(os.environ[f"SM_CHANNEL_{channel}"], "sequences.pt"), weights_only=True)
    return DataLoader(TensorDataset(blob["x"], blob["y"]), batch_size, shuffle=shuffle, num_workers=3, pin_memory=True)


class Churn(nn.Module):
    def __init__(self, features=24, hidden=128):
        super().__init__()
        self.rnn = nn.GRU(features, hidden, 2, batch_first=True, dropout=0.2)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1]).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, valid = load("TRAIN", args.batch_size, True), load("VALID", 512, False)
    model = Churn().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr, weight_decay=args.weight_decay)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        model.train()
        for x, y in train:
            optimizer.zero_grad()
            criterion(model(x.to(device)), y.to(device).float()).backward()
            optimizer.step()
        model.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in valid:
                total += criterion(model(x.to(device)), y.to(device).float()).item()
        print(f"epoch={epoch} val_loss={total / len(valid):.5f}")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "churn.pt"))


if __name__ == "__main__":
    main()
