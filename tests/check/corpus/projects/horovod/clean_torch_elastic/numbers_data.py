import torch
from torch.utils.data import Dataset


class Numbers(Dataset):
    def __init__(self, path):
        stored = torch.load(path, map_location="cpu", weights_only=True)
        self.signals, self.labels = stored["signals"].unsqueeze(1), stored["labels"]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.signals[index], self.labels[index]
