import fire
import torch
from schema import Settings
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Commands:
    def train(self, settings="settings.yaml", out="dust.pt"):
        config = Settings.read(settings)
        device = torch.device(config.device)
        stored = torch.load("/data/dust.pt", map_location="cpu", weights_only=True)
        data = TensorDataset(stored["images"], stored["labels"])
        loader = DataLoader(data, shuffle=True, **config.loader.model_dump())
        net = nn.Sequential(
            nn.Conv2d(3, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(64, 4),
        ).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=config.lr)
        for epoch in range(config.epochs):
            for images, labels in loader:
                loss = nn.functional.cross_entropy(net(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(epoch, loss.item(), flush=True)
        torch.save(net.state_dict(), out)

    def check(self, settings="settings.yaml"):
        print(Settings.read(settings).model_dump_json(indent=2))


if __name__ == "__main__":
    fire.Fire(Commands)
