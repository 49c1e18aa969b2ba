"""Wrong on purpose: `gpuproof check` reports what this job would waste."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
arguments = parser.parse_args()
model = torch.nn.Linear(32, 10).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(arguments.epochs):
    loss = model(torch.rand(64, 32, device="cuda")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch + 1}")
torch.save(model.state_dict(), "model.pt")
