import h5py
import torch
from torch.utils.data import Dataset


class Climate(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path) as file:
            self.length = len(file["fields"]) - 1

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path)
        pair = torch.from_numpy(self.file["fields"][index : index + 2]).float()
        return pair[0], pair[1]
