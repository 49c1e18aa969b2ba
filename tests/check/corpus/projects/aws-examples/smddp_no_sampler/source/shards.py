from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class TokenShards(Dataset):
    def __init__(self, root, length=512):
        self.arrays = [np.load(p, mmap_mode="r") for p in sorted(Path(root).glob("*.npy"))]
        self.index = [(i, j) for i, a in enumerate(self.arrays) for j in range(0, len(a) - length, length)]
        self.length = length

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        i, j = self.index[k]
        return torch.from_numpy(self.arrays[i][j : j + self.length].astype(np.int64))
