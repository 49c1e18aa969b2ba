from pathlib import Path

import torch
from torch.utils.data import Dataset
from torchvision.io import read_image


class Frames(Dataset):
    def __init__(self, folder):
        self.images = sorted(Path(folder, "rgb").glob("*.png"))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        path = self.images[index]
        image = read_image(str(path)).float() / 255
        depth = torch.load(
            path.parent.parent / "depth" / f"{path.stem}.pt", map_location="cpu", weights_only=True
        )
        return image, depth.unsqueeze(0)
