import sys
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


@dataclass
class Config:
    data: str = "data"
    batch_size: int = 256
    epochs: int = 5
    lr: float = 0.05
    device: str = "cuda:0"
    workers: int = 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.drop = nn.Dropout(0.25)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(self.drop(x).flatten(1)))
        return F.log_softmax(self.fc2(x), dim=1)


def loader(cfg, train):
    tf = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))])
    data = datasets.FashionMNIST(cfg.data, train=train, download=True, transform=tf)
    return DataLoader(data, cfg.batch_size, shuffle=train, num_workers=cfg.workers, pin_memory=True)


def step(net, opt, batch, cfg):
    x, y = (t.to(cfg.device, non_blocking=True) for t in batch)
    loss = F.nll_loss(net(x), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.item()


def test(net, batches, cfg):
    net.eval()
    hits = 0
    with torch.inference_mode():
        for x, y in batches:
            hits += (net(x.to(cfg.device)).argmax(1).cpu() == y).sum().item()
    return hits / len(batches.dataset)


def save(net, path):
    return torch.save(net.state_dict(), path)


def main(cfg):
    net = Net().to(cfg.device)
    opt = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
    train, held_out = loader(cfg, True), loader(cfg, False)
    for epoch in range(cfg.epochs):
        net.train()
        total = sum(step(net, opt, batch, cfg) for batch in train)
        print(f"{epoch} loss {total / len(train):.3f} accuracy {test(net, held_out, cfg):.3f}")
    save(net, "fashion.pt")


if __name__ == "__main__":
    main(Config(data=sys.argv[1]) if len(sys.argv) > 1 else Config())
