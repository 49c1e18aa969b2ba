import numpy as np
import torch
from torch.utils.data import Dataset


class Blocks(Dataset):
    def __init__(self, path, length=2049):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
        self.length = length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, i):
        return torch.from_numpy(self.tokens[i * self.length : (i + 1) * self.length].astype(np.int64))
