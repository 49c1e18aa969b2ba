import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

from prefetch import Prefetcher


def multi_head_loss(outputs, target):
    loss = 0
    for weight, logits in zip((1.0, 0.4), outputs):
        loss += weight * nn.functional.cross_entropy(logits, target)
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    device = torch.device("cuda:0")
    tf = transforms.Compose([transforms.RandomResizedCrop(299), transforms.ToTensor()])
    folder = datasets.ImageFolder(args.data, tf)
    batches = Prefetcher(DataLoader(folder, 96, shuffle=True, num_workers=10, pin_memory=True, drop_last=True), device)
    model = models.inception_v3(weights=None, num_classes=len(folder.classes), aux_logits=True).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), 0.045, alpha=0.9, eps=1.0)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for images, target in batches:
            loss = multi_head_loss(model(images), target)
            for parameter in model.parameters():
                parameter.grad = None
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: {torch.stack(losses).mean().item():.4f}")
        torch.save(model.state_dict(), "inception.pt")


if __name__ == "__main__":
    main()
