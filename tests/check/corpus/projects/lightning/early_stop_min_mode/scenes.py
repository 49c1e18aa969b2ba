from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Scenes(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("*.npz"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        scene = np.load(self.paths[index])
        image = torch.from_numpy(scene["bands"].astype("float32") / 65_535)
        return image, torch.from_numpy(scene["kelp"].astype("float32")).unsqueeze(0)
