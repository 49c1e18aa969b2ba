import albumentations as A
import cv2
import torch
from albumentations.pytorch import ToTensorV2
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models

augment = A.Compose([A.RandomResizedCrop(size=(224, 224)), A.HorizontalFlip(), A.Normalize(), ToTensorV2()])


def load(path):
    image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    return augment(image=image)["image"]


def main():
    device = torch.device("cuda")
    leaves = datasets.DatasetFolder("/data/leaves", load, extensions=(".jpg",))
    loader = DataLoader(leaves, batch_size=64, shuffle=True, num_workers=8, pin_memory=True)
    model = models.mobilenet_v3_large(weights="DEFAULT")
    model.classifier[3] = nn.Linear(1280, len(leaves.classes))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(15):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "/out/leaves.pt")


if __name__ == "__main__":
    main()
