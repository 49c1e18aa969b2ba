import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision.transforms import v2

from vit import ViT


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    assert torch.cuda.is_available(), "a GPU is required"
    device = torch.device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = True
    tf = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(224), v2.RandAugment(), v2.ToDtype(torch.float32, scale=True)])
    data = datasets.ImageFolder(args.root, tf)
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=12, pin_memory=True, persistent_workers=True)
    model = ViT(len(data.classes)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, epochs=args.epochs, steps_per_epoch=len(loader))
    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch} loss {loss.item():.4f} lr {schedule.get_last_lr()[0]:.2e}")
        torch.save(model.state_dict(), "vit.pt")


if __name__ == "__main__":
    main()
