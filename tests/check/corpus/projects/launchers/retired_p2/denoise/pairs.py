from pathlib import Path

import torch
import torchaudio
from torch.utils.data import Dataset


class Pairs(Dataset):
    def __init__(self, noisy, clean, length=32000):
        self.noisy, self.length = sorted(Path(noisy).glob("*.wav")), length
        self.clean = Path(clean)

    def __len__(self):
        return len(self.noisy)

    def __getitem__(self, i):
        a, _ = torchaudio.load(self.noisy[i])
        b, _ = torchaudio.load(self.clean / self.noisy[i].name)
        start = torch.randint(0, max(1, a.size(1) - self.length), ()).item()
        return a[:, start : start + self.length], b[:, start : start + self.length]
