from pathlib import Path

import torch
from torch.utils.data import Dataset


class Clips(Dataset):
    """One-second clips saved as tensors, one folder per word."""

    def __init__(self, root):
        words = sorted(p.name for p in Path(root).iterdir() if p.is_dir())
        self.items = [(p, i) for i, w in enumerate(words) for p in sorted((Path(root) / w).glob("*.pt"))]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        path, label = self.items[index]
        return torch.load(path, weights_only=True), label
