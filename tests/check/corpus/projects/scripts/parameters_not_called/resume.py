import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class AutoEncoder(nn.Module):
    def __init__(self, latent=64):
        super(AutoEncoder, self).__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(64 * 8 * 8, latent),
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, 64 * 8 * 8), nn.Unflatten(1, (64, 8, 8)),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


def load(path, net, opt, device):
    ckpt = torch.load(path, map_location=device)
    net.load_state_dict(ckpt["net"])
    opt.load_state_dict(ckpt["opt"])
    return ckpt["epoch"] + 1


def save(path, net, opt, epoch):
    torch.save({"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch}, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", default="ae.ckpt")
    parser.add_argument("--epochs", type=int, default=100)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = datasets.SVHN("data", split="train", download=True, transform=transforms.ToTensor())
    loader = DataLoader(data, 512, shuffle=True, num_workers=4, pin_memory=True)
    net = AutoEncoder().to(device)
    opt = torch.optim.Adam(net.parameters, lr=1e-3)
    start = load(args.checkpoint, net, opt, device) if os.path.exists(args.checkpoint) else 0
    for epoch in range(start, args.epochs):
        for x, _ in loader:
            x = x.to(device, non_blocking=True)
            loss = nn.functional.mse_loss(net(x), x)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        save(args.checkpoint, net, opt, epoch)
        print(f"epoch {epoch} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
