import json
import os

import torch
from torchvision.models import mobilenet_v3_small

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    path = os.path.join(model_dir, "small.pt")
    if os.path.exists(path):
        net = mobilenet_v3_small(num_classes=20)
        net.load_state_dict(torch.load(path, map_location=device, weights_only=True))
        return net.to(device).eval()


def predict_fn(data, model):
    with torch.inference_mode():
        return model(data.to(device)).cpu()


def transform_fn(model, data, content_type, accept):
    x = torch.tensor(json.loads(data)["instances"], dtype=torch.float32)
    return json.dumps(predict_fn(x, model).argmax(1).tolist()), accept
