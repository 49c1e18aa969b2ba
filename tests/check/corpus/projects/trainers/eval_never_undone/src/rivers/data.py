import numpy as np
import torch
from torch.utils.data import Dataset


class Gauges(Dataset):
    def __init__(self, path, first, last):
        self.levels = torch.from_numpy(np.load(path)["levels"][first:last]).float()

    def __len__(self):
        return len(self.levels) - 60

    def __getitem__(self, index):
        return self.levels[index : index + 48], self.levels[index + 48 : index + 60, 0]
