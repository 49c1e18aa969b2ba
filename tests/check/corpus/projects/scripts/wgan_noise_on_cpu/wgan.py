"""WGAN-GP on 64x64 faces: two optimizers, retained graphs and several backward passes are intended here."""
import argparse

import torch
from torch import autograd, nn, optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms, utils

Z = 128


def generator(width=64):
    def up(cin, cout):
        return [nn.ConvTranspose2d(cin, cout, 4, 2, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True)]

    return nn.Sequential(
        nn.ConvTranspose2d(Z, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width), nn.ReLU(True),
        *up(8 * width, 4 * width), *up(4 * width, 2 * width), *up(2 * width, width),
        nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
    )


def critic(width=64):
    def down(cin, cout):
        return [nn.Conv2d(cin, cout, 4, 2, 1), nn.GroupNorm(8, cout), nn.LeakyReLU(0.2, True)]

    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True), *down(width, 2 * width), *down(2 * width, 4 * width),
        *down(4 * width, 8 * width), nn.Conv2d(8 * width, 1, 4), nn.Flatten(0),
    )


def gradient_penalty(D, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    (grad,) = autograd.grad(D(mixed).sum(), mixed, create_graph=True)
    return ((grad.flatten(1).norm(2, 1) - 1) ** 2).mean()


def main(args):
    device = torch.device(args.device)
    tf = transforms.Compose([transforms.Resize(64), transforms.CenterCrop(64), transforms.ToTensor(),
                             transforms.Normalize((0.5,) * 3, (0.5,) * 3)])
    loader = DataLoader(datasets.ImageFolder(args.images, tf), 128, shuffle=True, num_workers=8, pin_memory=True,
                        drop_last=True)
    G, D = generator().to(device), critic().to(device)
    opt_g = optim.Adam(G.parameters(), 1e-4, betas=(0.0, 0.9))
    opt_d = optim.Adam(D.parameters(), 1e-4, betas=(0.0, 0.9))
    fixed = torch.randn(64, Z, 1, 1, device=device)
    step = 0
    for epoch in range(args.epochs):
        for real, _ in loader:
            real = real.to(device, non_blocking=True)
            noise = torch.randn(real.size(0), Z, 1, 1)
            fake = G(noise).detach()
            loss_d = D(fake).mean() - D(real).mean() + 10 * gradient_penalty(D, real, fake)
            opt_d.zero_grad(set_to_none=True)
            loss_d.backward()
            opt_d.step()
            if step % 5 == 0:
                loss_g = -D(G(noise)).mean()
                opt_g.zero_grad(set_to_none=True)
                loss_g.backward()
                opt_g.step()
            step += 1
        with torch.no_grad():
            utils.save_image(G(fixed) * 0.5 + 0.5, f"{args.out}/epoch{epoch:03d}.png")
        torch.save({"G": G.state_dict(), "D": D.state_dict()}, f"{args.out}/wgan.pt")
        print(f"{epoch}: critic {loss_d.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", required=True)
    parser.add_argument("--out", default=".")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--device", default="cuda")
    main(parser.parse_args())
