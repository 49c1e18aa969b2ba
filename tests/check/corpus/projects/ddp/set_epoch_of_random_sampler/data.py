from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def train_loader(root, batch_size, workers):
    tf = transforms.Compose([transforms.RandomResizedCrop(176), transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    dataset = datasets.ImageFolder(root, tf)
    return DataLoader(dataset, batch_size, shuffle=True, num_workers=workers, pin_memory=True, drop_last=True)
