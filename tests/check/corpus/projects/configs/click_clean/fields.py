import json
from pathlib import Path

import torch
from torch.utils.data import Dataset
from torchvision.io import read_image
from torchvision.transforms import v2


class Fields(Dataset):
    def __init__(self, folder, augment):
        self.folder = Path(folder)
        self.rows = json.loads((self.folder / "yields.json").read_text())
        extra = [v2.RandomHorizontalFlip(), v2.RandomRotation(90)] if augment else []
        self.prepare = v2.Compose([v2.Resize((224, 224)), *extra, v2.ToDtype(torch.float32, scale=True)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return self.prepare(read_image(str(self.folder / row["file"]))), torch.tensor(row["yield"]).float()
