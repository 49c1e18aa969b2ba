from torchvision import datasets, transforms


def shelf_dataset(folder):
    tf = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    return datasets.ImageFolder(folder, tf)
