import torch
from torch import nn
from torch.utils.data import DataLoader


class Fit:
    def __init__(self, net, data, frozen=True):
        self.device = torch.device("cuda:0")
        self.net = net.to(self.device)
        if frozen:
            for p in self.net.embed.parameters():
                p.require_grad = False
        self.loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def __call__(self, epochs):
        self.net.train()
        for epoch in range(epochs):
            total = 0.0
            for x, y in self.loader:
                x.to(self.device)
                y = y.to(self.device)
                prediction = torch.softmax(self.net(x), dim=1)
                loss = self.criterion(prediction, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                total += loss.item()
            print(epoch, total / len(self.loader))
        torch.save(self.net.state_dict(), "q8.pt")
