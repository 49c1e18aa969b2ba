from pathlib import Path

import torch
from torch.utils.data import Dataset


class Windows(Dataset):
    """Overlapping windows of a text file, as numbers of its printable characters."""

    def __init__(self, path, length=256):
        text = Path(path).read_text(encoding="ascii", errors="ignore")
        codes = [max(0, min(95, ord(letter) - 32)) for letter in text]
        self.codes = torch.tensor(codes, dtype=torch.long)
        self.length = length

    def __len__(self):
        return (len(self.codes) - 1) // self.length

    def __getitem__(self, index):
        start = index * self.length
        return self.codes[start : start + self.length]
