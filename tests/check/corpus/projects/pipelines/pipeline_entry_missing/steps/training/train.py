import argparse
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
with np.load(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "data.npz")) as data:
    dataset = TensorDataset(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))
model = nn.Sequential(nn.Linear(dataset.tensors[0].shape[1], 256), nn.ReLU(), nn.Linear(256, 1), nn.Flatten(0)).to(device)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for epoch in range(args.epochs):
    for x, y in DataLoader(dataset, 4096, shuffle=True, num_workers=4, pin_memory=True):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
torch.jit.script(model.cpu()).save(os.path.join(os.environ["SM_MODEL_DIR"], "model.ts"))
