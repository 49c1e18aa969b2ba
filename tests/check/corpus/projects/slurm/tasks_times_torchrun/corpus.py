import numpy as np
import torch
from torch.utils.data import Dataset


class Corpus(Dataset):
    def __init__(self, path, block):
        self.ids, self.block = np.memmap(path, np.uint16, "r"), block

    def __len__(self):
        return (len(self.ids) - 1) // self.block

    def __getitem__(self, i):
        part = torch.from_numpy(self.ids[i * self.block : (i + 1) * self.block + 1].astype(np.int64))
        return part[:-1], part[1:]
