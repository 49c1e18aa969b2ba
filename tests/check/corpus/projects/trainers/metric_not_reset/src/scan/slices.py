from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Slices(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        stored = np.load(self.paths[index])
        image = torch.from_numpy(stored["image"]).float().unsqueeze(0)
        return image, torch.from_numpy(stored["mask"]).float().unsqueeze(0)
