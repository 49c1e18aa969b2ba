from pathlib import Path

import tifffile
import torch
from torch.utils.data import Dataset


class Cells(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("images/*.tif"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = torch.from_numpy(tifffile.imread(path).astype("float32") / 65535).unsqueeze(0)
        mask = torch.from_numpy(tifffile.imread(path.parent.parent / "masks" / path.name).astype("float32"))
        return image, mask.unsqueeze(0)
