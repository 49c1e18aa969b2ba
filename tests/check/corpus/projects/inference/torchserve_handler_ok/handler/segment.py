"""TorchServe handler: the base class loads the model, moves it to the GPU and runs it without gradients."""
import io
import json

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.functional import normalize, resize, to_tensor
from ts.torch_handler.base_handler import BaseHandler


class SegmentHandler(BaseHandler):
    def preprocess(self, data):
        images = []
        for row in data:
            payload = row.get("data") or row.get("body")
            image = Image.open(io.BytesIO(payload)).convert("RGB")
            images.append(normalize(to_tensor(resize(image, [512, 512])), (0.5,) * 3, (0.5,) * 3))
        return torch.stack(images).to(self.device)

    def postprocess(self, output):
        classes = output["out"].argmax(1).byte().cpu().numpy()
        return [json.dumps({"histogram": np.bincount(mask.ravel(), minlength=21).tolist()}) for mask in classes]
