import torch
from engine.loop import fit
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

if __name__ == "__main__":
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    pets = datasets.OxfordIIITPet("data", download=True, transform=transform)
    loader = DataLoader(pets, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
    model = fit(models.resnext50_32x4d(num_classes=37), loader, nn.CrossEntropyLoss(), epochs=60)
    torch.save(model.state_dict(), "pets.pt")
