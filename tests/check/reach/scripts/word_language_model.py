"""Recurrent language model that keeps the best epoch and can be interrupted."""

import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--emsize", type=int, default=200)
parser.add_argument("--lr", type=float, default=20)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--cuda", action="store_true", default=False)
parser.add_argument("--save", type=str, default="model.pt", help="path of the final model")
parser.add_argument("--onnx-export", type=str, default="")
args = parser.parse_args()
if torch.cuda.is_available() and not args.cuda:
    print("there is a GPU: consider --cuda")
device = torch.device("cuda" if args.cuda else "cpu")
corpus = torch.randint(0, 1000, (100_000,))


def batchify(data, size):
    count = data.size(0) // size
    return data.narrow(0, 0, count * size).view(size, -1).t().contiguous().to(device)


train_data, val_data = batchify(corpus, 20), batchify(corpus[:10_000], 10)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, args.emsize)
        self.rnn = nn.LSTM(args.emsize, args.emsize)
        self.out = nn.Linear(args.emsize, 1000)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0]).view(-1, 1000)


model = Words().to(device)
criterion = nn.CrossEntropyLoss()


def evaluate(source):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, 35):
            total += criterion(model(source[i : i + 35][:-1]), source[i : i + 35][1:].reshape(-1)).item()
    return total / len(source)


def train():
    model.train()
    for i in range(0, train_data.size(0) - 1, 35):
        model.zero_grad()
        loss = criterion(model(train_data[i : i + 35][:-1]), train_data[i : i + 35][1:].reshape(-1))
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-args.lr)


best = None
try:
    for epoch in range(1, args.epochs + 1):
        train()
        val_loss = evaluate(val_data)
        print(epoch, math.exp(val_loss))
        if not best or val_loss < best:
            with open(args.save, "wb") as f:
                torch.save(model, f)
            best = val_loss
except KeyboardInterrupt:
    print("stopped early")
if len(args.onnx_export) > 0:
    torch.onnx.export(model, torch.zeros(35, 1, dtype=torch.long).to(device), args.onnx_export)
