"""A tiny forecaster that is meant for a laptop's CPU: no device anywhere, on purpose."""
import argparse

import numpy as np
import torch
from torch import nn


def windows(series, length):
    x = np.lib.stride_tricks.sliding_window_view(series[:-1], length)
    return torch.from_numpy(x.copy()).float(), torch.from_numpy(series[length:].copy()).float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv")
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    series = np.loadtxt(args.csv, delimiter=",", usecols=1, skiprows=1, dtype="float32")
    x, y = windows((series - series.mean()) / series.std(), args.length)
    model = nn.Sequential(nn.Linear(args.length, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(0))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    final = optimizer.step(closure)
    print(f"loss {final.item():.5f}")
    torch.save(model.state_dict(), "forecast.pt")


if __name__ == "__main__":
    main()
