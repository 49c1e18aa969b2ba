"""The handler of the endpoint: classifies JPEG images with a fine-tuned ConvNeXt."""

import io
import json
import os

import torch
from PIL import Image
from torchvision.models import convnext_tiny
from torchvision.transforms import v2

PREPROCESS = v2.Compose(
    [
        v2.ToImage(),
        v2.Resize(236),
        v2.CenterCrop(224),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    with open(os.path.join(model_dir, "labels.json")) as file:
        labels = json.load(file)
    model = convnext_tiny(num_classes=len(labels))
    state = torch.load(os.path.join(model_dir, "model.pt"), map_location="cpu", weights_only=True)
    model.load_state_dict(state)
    model.labels = labels
    model.to(DEVICE).eval()
    return model


def input_fn(body, content_type):
    if content_type != "application/x-image":
        raise ValueError(f"{content_type} is not supported: send application/x-image")
    image = Image.open(io.BytesIO(body)).convert("RGB")
    return PREPROCESS(image).unsqueeze(0)


def predict_fn(batch, model):
    with torch.inference_mode():
        scores = model(batch.to(DEVICE)).softmax(dim=1)
    values, places = scores.topk(5)
    return [
        {"label": model.labels[place], "score": value}
        for place, value in zip(places[0].tolist(), values[0].tolist(), strict=True)
    ]


def output_fn(prediction, accept):
    return json.dumps(prediction), "application/json"
