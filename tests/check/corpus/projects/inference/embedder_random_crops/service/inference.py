"""Image embeddings: model_fn returns an Embedder, predict_fn calls it."""
import base64
import io
import json
import os

import timm
import torch
from PIL import Image


class Embedder:
    def __init__(self, folder, batch_size=16):
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.batch_size = batch_size
        self.backbone = timm.create_model(config["architecture"], num_classes=0)
        state = torch.load(os.path.join(folder, "backbone.pt"), map_location="cpu", weights_only=True)
        self.backbone.load_state_dict(state)
        self.backbone.to(self.device).eval()
        data = timm.data.resolve_model_data_config(self.backbone)
        self.transform = timm.data.create_transform(**data, is_training=True)

    @torch.inference_mode()
    def __call__(self, images):
        embeddings = []
        for start in range(0, len(images), self.batch_size):
            batch = torch.stack([self.transform(image) for image in images[start : start + self.batch_size]])
            batch = batch.to(self.device)
            features = self.backbone(batch)
            embeddings.append(features)
        return torch.cat(embeddings).cpu().tolist()


def model_fn(model_dir):
    return Embedder(model_dir)


def input_fn(body, content_type="application/json"):
    return [Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB") for text in json.loads(body)["images"]]


def predict_fn(images, embedder):
    return {"embeddings": embedder(images)}


def output_fn(prediction, accept="application/json"):
    return json.dumps(prediction)
