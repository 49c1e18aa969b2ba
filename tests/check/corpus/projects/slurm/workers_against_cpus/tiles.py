from pathlib import Path

import rasterio
import torch
from torch.utils.data import Dataset


class Tiles(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder, "s2").glob("*.tif"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with rasterio.open(path) as tile, rasterio.open(path.parent.parent / "snow" / path.name) as snow:
            image = torch.from_numpy(tile.read().astype("float32") / 10_000)
            return image, torch.from_numpy(snow.read(1).astype("float32"))
