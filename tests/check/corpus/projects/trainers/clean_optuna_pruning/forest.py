import numpy as np
import torch
from torch.utils.data import Dataset


class Forest(Dataset):
    def __init__(self, path):
        stored = np.load(path)
        self.x = torch.from_numpy(stored["x"]).float()
        self.y = torch.from_numpy(stored["y"]).long()
        self.features, self.classes = self.x.shape[1], int(self.y.max()) + 1

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]
