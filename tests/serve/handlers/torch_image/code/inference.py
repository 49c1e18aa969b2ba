"""As published for ResNets: image bytes in, probabilities out."""

import io
import json
import logging
import os

import numpy as np
import torch
from PIL import Image
from torch import nn

logger = logging.getLogger(__name__)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Brightness(nn.Module):
    """Returns the mean red, green and blue of an image."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x.mean(dim=(2, 3)) * self.scale


def model_fn(model_dir):
    model = Brightness()
    with open(os.path.join(model_dir, "model.pth"), "rb") as f:
        model.load_state_dict(torch.load(f, map_location="cpu"))
    return model.to(device).eval()


def input_fn(request_body, content_type="application/x-image"):
    if content_type in ("application/x-image", "image/png", "image/jpeg"):
        image = Image.open(io.BytesIO(request_body)).convert("RGB").resize((8, 8))
        array = np.asarray(image, dtype=np.float32) / 255
        return torch.from_numpy(array.transpose(2, 0, 1).copy()).unsqueeze(0)
    raise Exception(f"Requested unsupported ContentType in content_type {content_type}")


def predict_fn(input_object, model):
    with torch.no_grad():
        return model(input_object.to(device))


def output_fn(predictions, response_content_type):
    assert response_content_type == "application/json"
    return json.dumps([round(value, 3) for value in predictions.cpu().numpy().tolist()[0]])
