import io
import os

import torch
from PIL import Image
from torchvision.models.detection import ssdlite320_mobilenet_v3_large
from torchvision.transforms.functional import to_tensor


def model_fn(model_dir):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3)
    model.load_state_dict(torch.load(os.path.join(model_dir, "helmets.pt"), map_location="cpu", weights_only=True))
    return model.to(device).eval(), device


def input_fn(body, content_type):
    return to_tensor(Image.open(io.BytesIO(body)).convert("RGB"))


def predict_fn(image, bundle):
    model, device = bundle
    with torch.inference_mode():
        found = model([image])[0]
    return {name: value.cpu().tolist() for name, value in found.items()}
