import pytorch_lightning as pl
import torch
from pytorchvideo.data import labeled_video_dataset, make_clip_sampler
from torch.utils.data import DataLoader
from torchvision.transforms import v2


class Sports(pl.LightningDataModule):
    def __init__(self, root, batch_size=8):
        super().__init__()
        self.root, self.batch_size = root, batch_size

    def videos(self, part, sampler):
        prepare = v2.Compose([v2.Lambda(lambda clip: clip["video"][:, ::4] / 255), v2.Resize((112, 112))])
        return labeled_video_dataset(
            f"{self.root}/{part}.csv", make_clip_sampler(sampler, 2.0), transform=lambda c: (prepare(c), c["label"])
        )

    def train_dataloader(self):
        return DataLoader(self.videos("train", "random"), batch_size=self.batch_size, num_workers=8)

    def val_dataloader(self):
        return DataLoader(self.videos("val", "uniform"), batch_size=self.batch_size, num_workers=8)

    @staticmethod
    def to_tensor(labels):
        return torch.as_tensor(labels)
