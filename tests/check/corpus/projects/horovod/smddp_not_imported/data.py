import json
import os

import torch
from torch.utils.data import Dataset
from torchvision.io import read_image
from torchvision.transforms.v2.functional import resize


class Captions(Dataset):
    def __init__(self, root):
        self.root = root
        with open(os.path.join(root, "captions.json")) as file:
            self.rows = json.load(file)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        image = resize(read_image(os.path.join(self.root, row["file"])).float() / 255, [224, 224])
        return image, torch.tensor(row["tokens"])
