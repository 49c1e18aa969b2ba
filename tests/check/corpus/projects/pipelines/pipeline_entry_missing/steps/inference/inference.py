import os

import torch


def model_fn(model_dir):
    return torch.jit.load(os.path.join(model_dir, "model.ts"), map_location="cpu").eval()


def predict_fn(data, model):
    with torch.inference_mode():
        return model(torch.as_tensor(data, dtype=torch.float32)).sigmoid().numpy()
