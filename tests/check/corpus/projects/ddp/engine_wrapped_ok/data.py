from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


def train_loader(root, batch_size, workers):
    tf = transforms.Compose([transforms.RandomResizedCrop(176), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    dataset = datasets.ImageFolder(root, tf)
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
    return DataLoader(dataset, batch_size, sampler=sampler, num_workers=workers, pin_memory=True, drop_last=True)
