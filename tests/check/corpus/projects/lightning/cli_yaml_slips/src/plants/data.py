import os

import lightning as L
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Plants(L.LightningDataModule):
    def __init__(self, batch_size: int = 32, workers: int = 4):
        super().__init__()
        self.batch_size, self.workers = batch_size, workers

    def setup(self, stage: str):
        root = os.environ["SM_CHANNEL_PLANTS"]
        train = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
        val = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
        self.train_set = datasets.ImageFolder(f"{root}/train", train)
        self.val_set = datasets.ImageFolder(f"{root}/val", val)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size, shuffle=True, num_workers=self.workers)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=self.batch_size, shuffle=True, num_workers=self.workers)
