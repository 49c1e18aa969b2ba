"""WGAN-GP: the penalty needs gradients of gradients, and the maker is frozen while the critic learns."""

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.utils import save_image

from gan.nets import Critic, Maker


def penalty(critic, real, fake):
    weight = torch.rand(len(real), 1, 1, 1, device=real.device)
    mixed = (weight * real + (1 - weight) * fake).requires_grad_(True)
    gradient = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()


class GanTrainer:
    def __init__(self, device, latent=128):
        self.device, self.latent = device, latent
        self.maker, self.critic = Maker(latent).to(device), Critic().to(device)
        options = {"lr": 1e-4, "betas": (0.0, 0.9)}
        self.maker_optimizer = torch.optim.Adam(self.maker.parameters(), **options)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), **options)
        self.shown = torch.randn(64, latent, device=device)

    def noise(self, count):
        return torch.randn(count, self.latent, device=self.device)

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.maker(self.noise(len(real)))
        loss = self.critic(fake).mean() - self.critic(real).mean() + 10 * penalty(self.critic, real, fake)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()

    def maker_step(self, count):
        loss = -self.critic(self.maker(self.noise(count))).mean()
        self.maker_optimizer.zero_grad()
        loss.backward()
        self.maker_optimizer.step()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for number, (real, _) in enumerate(loader):
                self.critic_step(real.to(self.device, non_blocking=True))
                if number % 5 == 0:
                    self.maker_step(len(real))
            with torch.no_grad():
                save_image(self.maker(self.shown), f"epoch-{epoch:03d}.png", normalize=True)
            torch.save(self.maker.state_dict(), "maker.pt")


if __name__ == "__main__":
    transform = transforms.Compose(
        [transforms.Resize(32), transforms.CenterCrop(32), transforms.ToTensor(), transforms.Normalize([0.5], [0.5])]
    )
    faces = datasets.CelebA("/data", transform=transform)
    loader = DataLoader(faces, 128, shuffle=True, num_workers=8, pin_memory=True, drop_last=True)
    GanTrainer(torch.device("cuda")).fit(loader, 60)
