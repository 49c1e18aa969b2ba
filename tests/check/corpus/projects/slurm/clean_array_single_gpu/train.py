import argparse

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--fold", type=int, required=True)
args = parser.parse_args()
device = torch.device("cuda")
stored = np.load(f"fold{args.fold}.npz")
x, y, x_test, y_test = (torch.from_numpy(stored[name]).to(device) for name in ("x", "y", "x_test", "y_test"))
net = nn.Sequential(nn.Linear(x.shape[1], 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 3)).to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-4)
for epoch in range(300):
    net.train()
    for rows in torch.randperm(len(x), device=device).split(512):
        loss = nn.functional.cross_entropy(net(x[rows].float()), y[rows].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
net.eval()
with torch.no_grad():
    accuracy = (net(x_test.float()).argmax(1) == y_test.long()).float().mean().item()
print(f"fold {args.fold}: {accuracy:.3f}")
