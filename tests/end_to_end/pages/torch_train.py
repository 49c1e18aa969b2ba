import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=2)
arguments = parser.parse_args()
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
data = torch.utils.data.TensorDataset(torch.randn(256, 16), torch.randint(2, (256,)))
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(arguments.epochs):
    for rows, labels in torch.utils.data.DataLoader(data, arguments.batch_size):
        loss = torch.nn.functional.cross_entropy(model(rows.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
