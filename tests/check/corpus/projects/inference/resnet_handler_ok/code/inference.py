import io
import json
import os

import torch
from PIL import Image
from torchvision import models, transforms

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
preprocess = transforms.Compose(
    [
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)


def model_fn(model_dir):
    model = models.resnet34(num_classes=12)
    model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location="cpu", weights_only=True))
    return model.to(device).eval()


def input_fn(request_body, content_type):
    if content_type not in ("image/jpeg", "image/png"):
        raise ValueError(f"unsupported content type {content_type}")
    image = Image.open(io.BytesIO(request_body)).convert("RGB")
    return preprocess(image).unsqueeze(0)


def predict_fn(data, model):
    with torch.inference_mode():
        out = model(data.to(device)).softmax(1)
    return {"class": int(out.argmax(1).cpu().numpy()[0])}


def output_fn(prediction, accept):
    return json.dumps(prediction)
