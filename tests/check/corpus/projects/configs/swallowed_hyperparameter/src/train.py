import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--width", type=int, default=64)
args, _ = parser.parse_known_args()


def dataset(name):
    folder = os.environ[f"SM_CHANNEL_{name}"]
    stored = torch.load(os.path.join(folder, "gestures.pt"), map_location="cpu", weights_only=True)
    return TensorDataset(stored["signals"], stored["labels"])


device = torch.device("cuda")
train = DataLoader(dataset("TRAIN"), batch_size=64, shuffle=True, num_workers=3)
test = DataLoader(dataset("TEST"), batch_size=256, num_workers=3)
model = nn.Sequential(
    nn.Conv1d(8, args.width, 9), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Dropout(0.2),
    nn.Linear(args.width, 12),
).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
for epoch in range(args.epochs):
    model.train()
    for signals, labels in train:
        loss = nn.functional.cross_entropy(model(signals.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(s.to(device)).argmax(1) == y.to(device)).sum().item() for s, y in test)
    print(f"epoch {epoch}: test_accuracy={right / len(test.dataset):.4f}", flush=True)
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "gestures.pt"))
