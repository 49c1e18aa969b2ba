import os

import pandas as pd
import torch
from torch import nn

frame = pd.read_csv(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "churn.csv"))
y = torch.tensor(frame.pop("churn").to_numpy("float32")).cuda()
x = torch.tensor(frame.to_numpy("float32")).cuda()
model = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)).cuda()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for epoch in range(200):
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "churn.pt"))
