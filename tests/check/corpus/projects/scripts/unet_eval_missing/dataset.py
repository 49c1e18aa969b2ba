from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class Scans(Dataset):
    def __init__(self, root, split):
        self.images = sorted((Path(root) / split / "images").glob("*.png"))
        self.masks = Path(root) / split / "masks"

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        path = self.images[i]
        image = np.asarray(Image.open(path).convert("L"), dtype=np.float32) / 255
        mask = np.asarray(Image.open(self.masks / path.name).convert("L")) > 127
        return torch.from_numpy(image)[None], torch.from_numpy(mask.astype(np.float32))[None]
