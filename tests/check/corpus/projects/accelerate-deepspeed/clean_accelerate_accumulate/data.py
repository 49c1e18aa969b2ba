from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import v2


def make_loaders(root, size, batch_size, transform=None):
    transform = transform or v2.Compose([v2.RandomResizedCrop(size), v2.RandomHorizontalFlip(), v2.ToTensor()])
    train = datasets.ImageFolder(f"{root}/train", transform)
    val = datasets.ImageFolder(f"{root}/val", v2.Compose([v2.Resize((size, size)), v2.ToTensor()]))
    options = {"batch_size": batch_size, "num_workers": 6, "pin_memory": True}
    return DataLoader(train, shuffle=True, drop_last=True, **options), DataLoader(val, **options)
