import torch
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class VAE(nn.Module):
    def __init__(self, latent=20):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 400), nn.ReLU())
        self.mu, self.logvar = nn.Linear(400, latent), nn.Linear(400, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 400), nn.ReLU(), nn.Linear(400, 784))
        self.loss = nn.BCEWithLogitsLoss(reduction="sum")

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        logits = self.decoder(z)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
        return self.loss(logits, x.flatten(1)) + kl

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, self.mu.out_features)
        return self.decoder(z).sigmoid().view(n, 1, 28, 28)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = datasets.MNIST("data", download=True, transform=transforms.ToTensor())
    loader = DataLoader(data, 256, shuffle=True, num_workers=4, pin_memory=True)
    model = VAE().to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(20):
        total = 0.0
        for x, _ in loader:
            loss = model(x.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(data):.2f}")
        torch.save(model.sample(64).cpu(), f"samples{epoch:02d}.pt")
    torch.save(model.state_dict(), "vae.pt")


if __name__ == "__main__":
    main()
