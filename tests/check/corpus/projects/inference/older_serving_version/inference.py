import os

import torch
from torchvision.models import densenet121

device = torch.device("cuda")


def model_fn(model_dir):
    path = os.path.join(model_dir, "model.pt")
    state = torch.load(path, map_location=device)
    model = densenet121(num_classes=state["classifier.bias"].numel())
    model.load_state_dict(state)
    return model.to(device).eval()


def predict_fn(data, model):
    tensor = torch.as_tensor(data, dtype=torch.float32).to(device)
    with torch.no_grad():
        return model(tensor).softmax(-1).cpu().numpy()
