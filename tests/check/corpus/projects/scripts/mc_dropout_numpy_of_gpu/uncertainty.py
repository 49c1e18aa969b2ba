"""Monte Carlo dropout: the network is in evaluation mode except for its dropout layers, on purpose."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def enable_dropout(model):
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.train()


def to_numpy(tensor):
    return tensor.detach().numpy()


def build(features):
    return nn.Sequential(
        nn.Linear(features, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2),
        nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 1), nn.Flatten(0),
    )


def predict(model, loader, device, passes):
    enable_dropout(model)
    means, deviations = [], []
    with torch.no_grad():
        for (x,) in loader:
            x = x.to(device)
            samples = torch.stack([model(x) for _ in range(passes)])
            means.append(to_numpy(samples.mean(0)))
            deviations.append(to_numpy(samples.std(0)))
    return np.concatenate(means), np.concatenate(deviations)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--passes", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with np.load(args.train) as data:
        train = TensorDataset(torch.from_numpy(data["x"]).float(), torch.from_numpy(data["y"]).float())
    test = TensorDataset(torch.from_numpy(np.load(args.test)["x"]).float())
    model = build(train.tensors[0].shape[1]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(train, 2048, shuffle=True, num_workers=2, drop_last=True, pin_memory=True)
    for _ in range(args.epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
    mean, std = predict(model, DataLoader(test, 8192, num_workers=2), device, args.passes)
    np.savez("predictions.npz", mean=mean, std=std)
    torch.save(model.state_dict(), "mc.pt")


if __name__ == "__main__":
    main()
