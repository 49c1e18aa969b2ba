"""Saves the weights of y = 2x + 1."""

import os

import torch

model = torch.nn.Linear(1, 1)
model.load_state_dict({"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])})
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))
print("saved", flush=True)
