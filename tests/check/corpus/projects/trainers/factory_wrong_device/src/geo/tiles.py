from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Tiles(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        tile = np.load(self.paths[index])
        return {"image": torch.from_numpy(tile["image"]), "elevation": torch.from_numpy(tile["elevation"])}
