from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import v2

from fastload.prefetch import Prefetcher


def make(root, device, batch_size=128, train=True):
    flips = [v2.RandomCrop(64, 4), v2.RandomHorizontalFlip()] if train else []
    transform = v2.Compose([*flips, v2.ToImage()])
    data = datasets.ImageFolder(root, transform)
    loader = DataLoader(
        data, batch_size, shuffle=train, num_workers=8, pin_memory=True, persistent_workers=True, drop_last=train
    )
    return Prefetcher(loader, device), len(data)
