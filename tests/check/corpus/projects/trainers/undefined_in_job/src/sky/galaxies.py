from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Galaxies(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        stored = np.load(self.paths[index])
        return torch.from_numpy(stored["bands"]).float(), torch.tensor(int(stored["kind"]))
