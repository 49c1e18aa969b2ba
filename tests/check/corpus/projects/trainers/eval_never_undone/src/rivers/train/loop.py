import torch
from torch import nn


class Loop:
    def __init__(self, net, train, val, lr):
        self.device = torch.device("cuda")
        self.net = net.to(self.device)
        self.train_loader, self.val_loader = train, val
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.loss = nn.HuberLoss()
        self.running = 0

    def run(self, epochs):
        self.net.train()
        for epoch in range(epochs):
            self.running = 0
            for levels, future in self.train_loader:
                self.update(levels.to(self.device), future.to(self.device))
            score = self.evaluate()
            print(f"{epoch}: {float(self.running) / len(self.train_loader):.4f} {score:.4f}")

    def update(self, levels, future):
        loss = self.loss(self.net(levels), future)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.running += loss

    def evaluate(self):
        self.net.eval()
        errors = 0.0
        for levels, future in self.val_loader:
            prediction = self.net(levels.to(self.device))
            errors += (prediction - future.to(self.device)).abs().mean().item()
        return errors / len(self.val_loader)
