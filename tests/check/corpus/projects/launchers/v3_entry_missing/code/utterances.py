from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence


class Utterances(torch.utils.data.Dataset):
    def __init__(self, root):
        self.paths = sorted(Path(root).rglob("*.pt"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return torch.load(self.paths[i], weights_only=True)[:800]

    def collate(self, mels):
        lengths = torch.tensor([len(m) for m in mels])
        batch = pad_sequence(mels, batch_first=True)
        return batch, torch.arange(batch.size(1))[None] >= lengths[:, None]
