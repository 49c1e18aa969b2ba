from pathlib import Path

import torch
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, read_image


class Streets(Dataset):
    def __init__(self, root):
        self.images = sorted(Path(root, "images").rglob("*.png"))
        self.root = Path(root)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        path = self.images[index]
        mask = read_image(str(self.root / "masks" / path.name), ImageReadMode.GRAY)
        return read_image(str(path)).float() / 255, mask.squeeze(0).to(torch.long)
