"""Predicts waves on the CPU with LBFGS, and plots them."""

import argparse

import matplotlib
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

matplotlib.use("Agg")
import matplotlib.pyplot as plt


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(1, 51)
        self.linear = nn.Linear(51, 1)

    def forward(self, series, future=0):
        outputs = []
        state = (torch.zeros(series.size(0), 51, dtype=torch.double),) * 2
        for value in series.split(1, dim=1):
            state = self.cell(value, state)
            outputs.append(self.linear(state[0]))
        for _ in range(future):
            state = self.cell(outputs[-1], state)
            outputs.append(self.linear(state[0]))
        return torch.cat(outputs, dim=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=15)
    opt = parser.parse_args()
    np.random.seed(0)
    torch.manual_seed(0)
    data = torch.from_numpy(np.sin(np.arange(1000) / 20.0).reshape(1, -1).repeat(4, 0))
    seq = Waves().double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8)
    for i in range(opt.steps):

        def closure():
            optimizer.zero_grad()
            loss = criterion(seq(data[:, :-1]), data[:, 1:])
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            pred = seq(data[:, :-1], future=1000)
            y = pred.detach().numpy()
        plt.figure()
        plt.plot(y[0])
        plt.savefig("predict%d.pdf" % i)
        plt.close()
