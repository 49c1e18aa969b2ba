import argparse

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from net import Regressor


def split(path, share=0.1):
    table = torch.from_numpy(np.load(path)).float()
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(1))
    cut = int(share * len(table))
    return table[order[cut:]], table[order[:cut]]


def loader(table, training):
    data = TensorDataset(table[:, :-1], table[:, -1])
    return DataLoader(data, 4096, shuffle=training, num_workers=2, pin_memory=True, drop_last=training)


def evaluate(model, batches):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        total = sum(model.nll(x, y).item() for x, y in batches)
    model.train(was_training)
    return total / len(batches)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--epochs", type=int, default=50)
    args = parser.parse_args()
    train, valid = split(args.table)
    model = Regressor(train.shape[1] - 1)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    train_batches, valid_batches = loader(train, True), loader(valid, False)
    model.train()
    for epoch in range(args.epochs):
        running = torch.zeros((), device=model.device)
        for x, y in train_batches:
            loss = model.nll(x, y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.detach()
        score = evaluate(model, valid_batches)
        plateau.step(score)
        print(f"epoch {epoch} train {running.item() / len(train_batches):.4f} valid {score:.4f}")
    torch.save(model.state_dict(), "regressor.pt")


if __name__ == "__main__":
    main()
