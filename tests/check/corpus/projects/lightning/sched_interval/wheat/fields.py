import csv
from pathlib import Path

import torch
from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, read_image
from torchvision.transforms import v2


class Fields(Dataset):
    def __init__(self, folder, train):
        folder = Path(folder)
        with (folder / "counts.csv").open() as file:
            self.rows = [(folder / row["file"], float(row["heads"])) for row in csv.DictReader(file)]
        flips = [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()] if train else []
        self.prepare = v2.Compose([v2.Resize((384, 384)), *flips, v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        path, heads = self.rows[index]
        return self.prepare(read_image(str(path), ImageReadMode.RGB)), torch.tensor(heads)
