from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Volumes(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        stored = np.load(self.paths[index])
        return torch.from_numpy(stored["ct"]).float().unsqueeze(0), torch.from_numpy(stored["mask"]).long()
