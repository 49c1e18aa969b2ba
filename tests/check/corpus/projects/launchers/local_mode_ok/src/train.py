import argparse
import os
import pathlib

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--vibration", type=pathlib.Path, default=os.environ.get("SM_CHANNEL_VIBRATION"))
parser.add_argument("--model-dir", type=pathlib.Path, default=os.environ.get("SM_MODEL_DIR"))
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
data = torch.from_numpy(np.concatenate([np.load(p) for p in sorted(args.vibration.glob("*.npy"))])).float().to(device)
model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 256), nn.ReLU(),
                      nn.Linear(256, 1024)).to(device)
opt = torch.optim.Adam(model.parameters(), 1e-3)
for epoch in range(args.epochs):
    for index in torch.randperm(len(data), device=device).split(1024):
        batch = data[index]
        loss = nn.functional.mse_loss(model(batch), batch)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: {loss.item():.5f}")
torch.save(model.state_dict(), args.model_dir / "autoencoder.pt")
