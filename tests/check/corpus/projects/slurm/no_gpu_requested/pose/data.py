from pathlib import Path

import torch
from torch.utils.data import Dataset


class Keypoints(Dataset):
    def __init__(self, root):
        self.paths = sorted(Path(root).glob("*.pt"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        row = torch.load(self.paths[index], map_location="cpu", weights_only=True)
        return row["image"], row["heatmaps"]
