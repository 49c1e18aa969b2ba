from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Fields(Dataset):
    def __init__(self, root):
        self.paths = sorted(Path(root).rglob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with np.load(self.paths[i]) as z:
            return torch.from_numpy(z["low"]).float(), torch.from_numpy(z["high"]).float()
