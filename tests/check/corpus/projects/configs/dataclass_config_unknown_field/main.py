import torch
from config import Config
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    config = Config.from_args()
    device = torch.device(config.device)
    stored = torch.load(config.data, map_location="cpu", weights_only=True)
    data = TensorDataset(stored["x"], stored["y"])
    loader = DataLoader(data, config.batch_size, shuffle=True, num_workers=3)
    net = nn.Sequential(
        nn.Linear(stored["x"].shape[1], config.width), nn.ReLU(), nn.Linear(config.width, 1)
    ).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate)
    for epoch in range(config.epochs):
        for x, y in loader:
            loss = nn.functional.mse_loss(net(x.to(device)).squeeze(1), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
    torch.save(net.state_dict(), "tabular.pt")


if __name__ == "__main__":
    main()
