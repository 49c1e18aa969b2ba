import os

import torch

device = torch.device("cuda")


def model_fn(model_dir):
    path = os.path.join(model_dir, "model.pt")
    return torch.load(path, map_location=device).eval()


def predict_fn(data, model):
    tensor = torch.as_tensor(data, dtype=torch.float32)
    tensor.to(device)
    with torch.no_grad():
        return model(tensor).softmax(-1).cpu().numpy()
