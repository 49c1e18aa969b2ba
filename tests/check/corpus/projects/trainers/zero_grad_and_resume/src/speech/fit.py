import torch
from torch import nn

from speech import checkpoint


class Fit:
    def __init__(self, model, loader, path, lr=5e-4):
        self.device = torch.device("cuda", 0)
        self.model = model.to(self.device)
        self.loader, self.path, self.epoch = loader, path, 0
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.loss = nn.CTCLoss(zero_infinity=True)
        checkpoint.resume(self, path)

    def __call__(self, epochs):
        while self.epoch < epochs:
            self.model.train()
            for waves, wave_lengths, texts, text_lengths in self.loader:
                scores = self.model(waves.to(self.device)).log_softmax(-1).transpose(0, 1)
                loss = self.loss(scores, texts.to(self.device), wave_lengths // 320, text_lengths)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.optimizer.step()
            checkpoint.save(self, self.path)
            self.epoch += 1
