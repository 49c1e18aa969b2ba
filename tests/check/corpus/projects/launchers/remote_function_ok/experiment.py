"""Run a function on a GPU instance with the remote decorator."""
import argparse

from sagemaker.remote_function import remote

IMAGE = "763104351884.dkr.ecr.eu-central-1.amazonaws.com/pytorch-training:2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker"


@remote(instance_type="ml.g5.xlarge", image_uri=IMAGE, dependencies="requirements-remote.txt", max_runtime_in_seconds=3600)
def fit(rows, labels, epochs):
    import torch
    from torch import nn

    device = torch.device("cuda")
    x = torch.tensor(rows, device=device)
    y = torch.tensor(labels, device=device)
    model = nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, int(y.max()) + 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(epochs):
        for index in torch.randperm(len(x), device=device).split(4096):
            loss = nn.functional.cross_entropy(model(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.inference_mode():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    return accuracy, {name: value.cpu().tolist() for name, value in model.state_dict().items()}


if __name__ == "__main__":
    import numpy as np

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    data = np.load("features.npz")
    accuracy, weights = fit(data["x"].astype("float32").tolist(), data["y"].tolist(), args.epochs)
    print(f"accuracy {accuracy:.3f}, {len(weights)} tensors")
