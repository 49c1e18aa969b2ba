import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, models, transforms


def loaders(batch_size):
    prepare = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])
    food = datasets.Food101("data", split="train", transform=prepare)
    train, val = random_split(food, [0.9, 0.1], generator=torch.Generator().manual_seed(0))
    return (
        DataLoader(train, batch_size=batch_size, shuffle=True, num_workers=8, pin_memory=True),
        DataLoader(val, batch_size=batch_size, num_workers=8, pin_memory=True),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    accelerator = Accelerator()
    train_loader, val_loader = loaders(args.batch_size)
    model = models.convnext_tiny(weights="DEFAULT")
    model.classifier[2] = nn.Linear(768, 101)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    optimizer, train_loader, val_loader = accelerator.prepare(optimizer, train_loader, val_loader)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(args.epochs):
        model.train()
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
        model.eval()
        right = torch.zeros((), device=accelerator.device)
        seen = 0
        with torch.no_grad():
            for images, labels in val_loader:
                found, known = accelerator.gather_for_metrics((model(images).argmax(1), labels))
                right += (found == known).sum()
                seen += len(known)
        accelerator.print(f"epoch {epoch}: accuracy {right.item() / seen:.3f}")
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "convnext.pt")


if __name__ == "__main__":
    main()
