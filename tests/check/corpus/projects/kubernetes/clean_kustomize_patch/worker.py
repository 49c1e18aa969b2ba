"""Cuts thumbnails around what a detector finds: on CPUs by default, on a GPU with overlays/gpu."""

import os
import time
from pathlib import Path

import torch
from torchvision.io import ImageReadMode, read_image, write_jpeg
from torchvision.models.detection import FasterRCNN_MobileNet_V3_Large_320_FPN_Weights as Weights
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

DEVICE = torch.device(os.environ.get("DEVICE", "cpu"))


@torch.inference_mode()
def thumbnail(model, path):
    image = read_image(str(path), ImageReadMode.RGB)
    found = model([image.to(DEVICE).float() / 255])[0]
    if len(found["boxes"]):
        left, top, right, bottom = found["boxes"][0].int().tolist()
        image = image[:, top:bottom, left:right]
    write_jpeg(image, f"/out/{path.stem}.jpg")


def main():
    model = fasterrcnn_mobilenet_v3_large_320_fpn(weights=Weights.DEFAULT).to(DEVICE).eval()
    while True:
        for path in Path("/in").glob("*.jpg"):
            thumbnail(model, path)
            path.unlink()
        time.sleep(2)


if __name__ == "__main__":
    main()
