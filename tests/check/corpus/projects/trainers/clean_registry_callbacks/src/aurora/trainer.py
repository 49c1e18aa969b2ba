import torch
from torch import nn


class Trainer:
    def __init__(self, model, loaders, callbacks=(), device=None, amp=True):
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.loaders, self.callbacks = loaders, list(callbacks)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=amp and self.device.type == "cuda")
        self.amp = amp

    def state_dict(self):
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def _loss(self, batch):
        noisy, clean = (part.to(self.device, non_blocking=True) for part in batch)
        with torch.autocast(self.device.type, torch.float16, enabled=self.scaler.is_enabled()):
            return nn.functional.l1_loss(self.model(noisy), clean)

    def _train(self):
        self.model.train()
        for batch in self.loaders["train"]:
            self.optimizer.zero_grad(set_to_none=True)
            self.scaler.scale(self._loss(batch)).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()

    @torch.no_grad()
    def _validate(self):
        self.model.eval()
        total = torch.zeros((), device=self.device)
        for batch in self.loaders["val"]:
            total += self._loss(batch)
        return (total / len(self.loaders["val"])).item()

    def fit(self, epochs):
        for epoch in range(epochs):
            self._train()
            loss = self._validate()
            for callback in self.callbacks:
                callback.on_epoch_end(self, epoch, loss)
