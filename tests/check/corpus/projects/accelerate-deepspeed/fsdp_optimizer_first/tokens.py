import numpy as np
import torch
from torch.utils.data import Dataset


class Tokens(Dataset):
    def __init__(self, path, block=1025):
        self.ids, self.block = np.memmap(path, np.uint16, "r"), block

    def __len__(self):
        return len(self.ids) // self.block

    def __getitem__(self, index):
        return torch.from_numpy(self.ids[index * self.block : (index + 1) * self.block].astype(np.int64))
