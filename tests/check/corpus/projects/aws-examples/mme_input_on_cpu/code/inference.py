import os

import torch
from torchvision import models


def model_fn(model_dir):
    model = models.resnet18(weights=None, num_classes=3)
    state = torch.load(os.path.join(model_dir, "model.pth"), map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def predict_fn(data, model):
    x = torch.as_tensor(data, dtype=torch.float32)
    with torch.inference_mode():
        return model(x).softmax(1).cpu().numpy()
