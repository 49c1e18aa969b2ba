import torch
from torch import nn


class SkyTrainer:
    def __init__(self, net, epochs):
        self.device = torch.device("cuda")
        self.net, self.epochs = net.to(self.device), epochs
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, epochs)
        self.history = []

    def fit(self, loader):
        for epoch in range(self.epochs):
            self.net.train()
            running = 0.0
            for bands, kinds in loader:
                bands = bands.to(self.device, non_blocking=True)
                kinds = kinds.to(self.device, non_blocking=True)
                loss = nn.functional.cross_entropy(self.net(bands), kinds)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                running += loss.item()
            self.scheduler.step()
            self.history.append({"epoch": epoch, "loss": running / len(loader), "lr": scheduler.get_last_lr()})
            print(self.history[-1], flush=True)

    def save(self, model_dir):
        torch.save(self.net, os.path.join(model_dir, "net.pt"))
