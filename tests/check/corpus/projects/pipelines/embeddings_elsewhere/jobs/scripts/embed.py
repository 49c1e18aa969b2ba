import argparse
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import ResNet50_Weights, resnet50

ROOT = Path("/opt/ml/processing")


class Photos(Dataset):
    def __init__(self, folder, transform):
        self.paths, self.transform = sorted(folder.rglob("*.jpg")), transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]).convert("RGB"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    weights = ResNet50_Weights.DEFAULT
    net = resnet50(weights=weights)
    net.fc = nn.Identity()
    net.cuda().eval()
    photos = Photos(ROOT / "images", weights.transforms())
    vectors = []
    with torch.inference_mode():
        for images in DataLoader(photos, args.batch_size, num_workers=8, pin_memory=True):
            vectors.append(net(images.cuda()).cpu())
    os.makedirs(ROOT / "vectors", exist_ok=True)
    np.save(ROOT / "vectors" / "vectors.npy", torch.cat(vectors).numpy())
    (ROOT / "vectors" / "paths.txt").write_text("\n".join(map(str, photos.paths)))


if __name__ == "__main__":
    main()
