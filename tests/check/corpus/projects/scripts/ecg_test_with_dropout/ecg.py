import h5py
import torch
from torch.utils.data import DataLoader, Dataset


class Ecg(Dataset):
    def __init__(self, path, split):
        self.path, self.split, self.file = path, split, None
        with h5py.File(path) as f:
            self.length = len(f[split]["label"])

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        if self.file is None:
            self.file = h5py.File(self.path)[self.split]
        return torch.from_numpy(self.file["signal"][i]).float(), int(self.file["label"][i])


def loader(path, split, batch_size=128):
    return DataLoader(Ecg(path, split), batch_size, shuffle=split == "train", num_workers=6, pin_memory=True)
