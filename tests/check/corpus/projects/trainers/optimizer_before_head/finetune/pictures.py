from torch.utils.data import DataLoader
from torchvision import datasets, transforms

NORMAL = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])


def loader(folder, train):
    steps = [transforms.RandomResizedCrop(224)] if train else [transforms.Resize(256), transforms.CenterCrop(224)]
    data = datasets.ImageFolder(folder, transforms.Compose([*steps, transforms.ToTensor(), NORMAL]))
    return DataLoader(data, batch_size=64, shuffle=train, num_workers=6, pin_memory=True)
