import pandas as pd
import torch
import torchvision.io as io
from torch.utils.data import Dataset


class Xrays(Dataset):
    def __init__(self, table, folder, size=320):
        self.rows = list(pd.read_csv(table).itertuples(index=False))
        self.folder = folder
        self.size = size

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        image = io.read_image(f"{self.folder}/{row.file}", io.ImageReadMode.RGB)
        image = torch.nn.functional.interpolate(image[None].float() / 255, (self.size, self.size))[0]
        return image, torch.tensor(row.label)
