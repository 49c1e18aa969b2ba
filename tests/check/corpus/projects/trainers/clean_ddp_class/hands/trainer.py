import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, context, model, train, val, lr=1e-3):
        self.context = context
        self.model = context.wrap(model)
        self.sampler = context.sampler(train, shuffle=True)
        self.train_loader = self.loader(train, self.sampler, shuffle=self.sampler is None)
        self.val_loader = self.loader(val, context.sampler(val, shuffle=False))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    @staticmethod
    def loader(data, sampler, shuffle=False):
        return DataLoader(data, 128, shuffle=shuffle, sampler=sampler, num_workers=6, pin_memory=True)

    @property
    def bare(self):
        return getattr(self.model, "module", self.model)

    def fit(self, epochs, path):
        for epoch in range(epochs):
            if self.sampler is not None:
                self.sampler.set_epoch(epoch)
            self.model.train()
            for joints, signs in self.train_loader:
                loss = self.loss(joints, signs)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            score = self.validate()
            if self.context.is_main:
                print(f"{epoch}: {score:.4f}", flush=True)
                torch.save(self.bare.state_dict(), path)

    def loss(self, joints, signs):
        device = self.context.device
        logits = self.model(joints.to(device, non_blocking=True))
        return nn.functional.cross_entropy(logits, signs.to(device, non_blocking=True))

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self.loss(joints, signs).item() for joints, signs in self.val_loader]
        return self.context.mean(sum(losses) / len(losses))
