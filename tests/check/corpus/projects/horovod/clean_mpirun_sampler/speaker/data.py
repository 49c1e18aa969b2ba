from pathlib import Path

import horovod.torch as hvd
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Voices(Dataset):
    def __init__(self, root, split):
        self.paths = sorted(Path(root, split).rglob("*.pt"))
        self.names = sorted({path.parent.name for path in self.paths})

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        features = torch.load(path, map_location="cpu", weights_only=True)
        return features[:, :300], self.names.index(path.parent.name)


def make_loader(root, split, batch_size):
    """A loader of this rank's part; its sampler is `loader.sampler`."""
    data = Voices(root, split)
    sampler = DistributedSampler(data, hvd.size(), hvd.rank(), shuffle=split == "train")
    return DataLoader(data, batch_size, sampler=sampler, num_workers=6, pin_memory=True, drop_last=split == "train")
