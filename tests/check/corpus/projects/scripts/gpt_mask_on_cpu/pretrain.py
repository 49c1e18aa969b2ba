import math
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ACCUMULATE = int(os.environ.get("ACCUMULATE", 8))
BLOCK = 512
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Tokens(Dataset):
    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        return (len(self.data) - 1) // BLOCK

    def __getitem__(self, i):
        chunk = torch.from_numpy(self.data[i * BLOCK : (i + 1) * BLOCK + 1].astype(np.int64))
        return chunk[:-1], chunk[1:]


class GPT(nn.Module):
    def __init__(self, vocab=50304, dim=512, heads=8, layers=8):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(BLOCK, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.1, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, x):
        t = x.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        h = self.tok(x) + self.pos(torch.arange(t, device=x.device))
        return self.head(self.blocks(h, mask=mask, is_causal=True))


def loss_of(model, x, y):
    x, y = x.to(device), y.to(device)
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def main(folder):
    train = DataLoader(Tokens(folder / "train.bin"), 12, shuffle=True, num_workers=4, pin_memory=True)
    valid = DataLoader(Tokens(folder / "val.bin"), 12, num_workers=4, pin_memory=True)
    model = GPT().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    for epoch in range(3):
        model.train()
        for step, (x, y) in enumerate(train):
            loss = loss_of(model, x, y)
            (loss / ACCUMULATE).backward()
            if (step + 1) % ACCUMULATE == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad(set_to_none=True)
        model.eval()
        with torch.no_grad():
            valid_loss = sum(loss_of(model, x, y).item() for x, y in valid)
        print(f"epoch {epoch}: perplexity {math.exp(valid_loss / len(valid)):.2f}")
        torch.save(model.state_dict(), folder / f"gpt-{epoch}.pt")


if __name__ == "__main__":
    main(Path(os.environ.get("DATA", "data")))
