from pathlib import Path

from torch.utils.data import Dataset
from torchvision.io import ImageReadMode, read_image
from torchvision.transforms.v2.functional import resize


class Sprites(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).rglob("*.png"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = read_image(str(self.paths[index]), ImageReadMode.RGB)
        return resize(image.float() / 127.5 - 1, [64, 64], antialias=True)
