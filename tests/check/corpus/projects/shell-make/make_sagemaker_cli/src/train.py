import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

if __name__ == "__main__":
    device = torch.device("cuda")
    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    hives = datasets.ImageFolder(os.environ["SM_CHANNEL_HIVES"], transform)
    loader = DataLoader(hives, batch_size=64, shuffle=True, num_workers=3, pin_memory=True)
    model = models.shufflenet_v2_x1_0(num_classes=len(hives.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(25):
        model.train()
        for images, labels in loader:
            images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch={epoch} loss={loss.item():.4f}", flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "bees.pt"))
