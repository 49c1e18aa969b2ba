from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def image_loader(folder, training):
    crop = transforms.RandomResizedCrop(224) if training else transforms.CenterCrop(224)
    tf = transforms.Compose([transforms.Resize(256), crop, transforms.ToTensor()])
    return DataLoader(datasets.ImageFolder(folder, tf), 64, shuffle=training, num_workers=7, pin_memory=True)
