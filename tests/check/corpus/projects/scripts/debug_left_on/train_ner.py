import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from data import PAD, Tagged, collate

torch.autograd.set_detect_anomaly(True)


class Tagger(nn.Module):
    def __init__(self, vocab=30000, tags=17, dim=256):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, dim, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.out = nn.Linear(2 * dim, tags)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


def train(args):
    loader = DataLoader(Tagged(args.train), args.batch_size, shuffle=True, collate_fn=collate, num_workers=3)
    tagger = Tagger().cuda()
    criterion = nn.CrossEntropyLoss(ignore_index=-100)
    for epoch in range(args.epochs):
        optimizer = torch.optim.Adam(tagger.parameters(), lr=args.lr)
        for ids, tags in loader:
            ids, tags = ids.cuda(), tags.cuda()
            loss = criterion(tagger(ids).transpose(1, 2), tags)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()
        print(f"epoch {epoch} last loss {loss.item():.4f}")
    torch.save(tagger.state_dict(), args.out)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--train", required=True)
    p.add_argument("--out", default="tagger.pt")
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=1e-3)
    train(p.parse_args())
