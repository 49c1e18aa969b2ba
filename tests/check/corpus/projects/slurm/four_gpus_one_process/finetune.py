import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, models
from torchvision.transforms import v2

parser = argparse.ArgumentParser()
parser.add_argument("--images", required=True)
parser.add_argument("--out", required=True)
args = parser.parse_args()

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
transform = v2.Compose([v2.PILToTensor(), v2.Resize((300, 300)), v2.ToDtype(torch.float32, scale=True)])
cells = datasets.ImageFolder(args.images, transform)
train_set, val_set = random_split(cells, [0.8, 0.2], torch.Generator().manual_seed(0))
train = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=14, pin_memory=True)
val = DataLoader(val_set, batch_size=128, num_workers=14, pin_memory=True)
model = models.efficientnet_b3(weights="IMAGENET1K_V1")
model.classifier[1] = nn.Linear(1536, len(cells.classes))
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
criterion = nn.CrossEntropyLoss()

best = 0.0
for epoch in range(30):
    model.train()
    for images, labels in train:
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in val:
            right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
    accuracy = right / len(val_set)
    print(f"{epoch} {accuracy:.3f}", flush=True)
    if accuracy > best:
        best = accuracy
        Path(args.out).mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), Path(args.out, "best.pt"))
