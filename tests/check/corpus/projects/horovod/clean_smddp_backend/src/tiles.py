import os

import numpy as np
import torch
from torch.utils.data import Dataset


class Tiles(Dataset):
    def __init__(self, folder):
        self.images = np.load(os.path.join(folder, "images.npy"), mmap_mode="r")
        self.classes = np.load(os.path.join(folder, "classes.npy"), mmap_mode="r")

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index].astype("float32") / 255)
        return image.permute(2, 0, 1), torch.from_numpy(self.classes[index].astype("int64"))
