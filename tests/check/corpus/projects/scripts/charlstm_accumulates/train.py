import argparse
from pathlib import Path

import torch
from torch import nn

from model import CharLSTM


def batches(data, batch_size, seq_len, device):
    n = (data.numel() - 1) // (batch_size * seq_len) * seq_len
    x = data[: batch_size * n].view(batch_size, -1)
    y = data[1 : batch_size * n + 1].view(batch_size, -1)
    for i in range(0, n, seq_len):
        yield x[:, i : i + seq_len].to(device), y[:, i : i + seq_len].to(device)


def main():
    p = argparse.ArgumentParser(description="character language model")
    p.add_argument("corpus", type=Path)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--seq-len", type=int, default=128)
    args = p.parse_args()

    text = args.corpus.read_text(encoding="utf-8")
    vocab = sorted(set(text))
    stoi = {c: i for i, c in enumerate(vocab)}
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
    device = "cuda"
    model = CharLSTM(len(vocab)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        model.train()
        losses = []
        hidden = model.init_hidden(args.batch_size)
        for x, y in batches(data, args.batch_size, args.seq_len, device):
            hidden = tuple(h.detach() for h in hidden)
            logits, hidden = model(x, hidden)
            loss = criterion(logits.flatten(0, 1), y.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}")
        torch.save({"model": model.state_dict(), "vocab": vocab}, f"char-{epoch:03d}.pt")


if __name__ == "__main__":
    main()
