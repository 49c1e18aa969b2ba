import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchaudio.datasets import LIBRISPEECH

from asr.data import ALPHABET, collate
from asr.model import Ctc


class Runner:
    def __init__(self, args):
        self.device = torch.device("cuda")
        self.model = Ctc(len(ALPHABET)).to(self.device)
        self.criterion = nn.CTCLoss(zero_infinity=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), args.lr)
        self.train_loader = self.loader(args, "train-clean-100", True)
        self.dev_loader = self.loader(args, "dev-clean", False)

    @staticmethod
    def loader(args, split, training):
        data = LIBRISPEECH(args.root, split, download=True)
        return DataLoader(data, args.batch_size, shuffle=training, collate_fn=collate, num_workers=8, pin_memory=True)

    def loss(self, batch):
        features, targets, lengths, target_lengths = (part.to(self.device, non_blocking=True) for part in batch)
        log_probs, out_lengths = self.model(features, lengths)
        return self.criterion(log_probs.transpose(0, 1), targets, out_lengths, target_lengths)

    def train_epoch(self):
        self.model.train()
        for step, batch in enumerate(self.train_loader):
            loss = self.loss(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            if step % 100 == 0:
                print(f"  step {step} loss {loss.item():.3f}")

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self.loss(batch).item() for batch in self.dev_loader]
        return sum(losses) / len(losses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", default=".")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-4)
    options = parser.parse_args()
    runner = Runner(options)
    for epoch in range(options.epochs):
        runner.train_epoch()
        print(f"epoch {epoch} dev loss {runner.validate():.3f}")
        torch.save(runner.model.state_dict(), "ctc.pt")
