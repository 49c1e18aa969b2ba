import numpy as np
import torch
from torch.utils.data import Dataset


class Tokens(Dataset):
    """Blocks of a memory-mapped file of 16-bit token ids."""

    def __init__(self, path, block=1024):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
        self.block = block

    def __len__(self):
        return len(self.tokens) // self.block

    def __getitem__(self, index):
        start = index * self.block
        return torch.from_numpy(self.tokens[start : start + self.block].astype(np.int64))
