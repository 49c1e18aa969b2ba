"""Optuna: each trial builds model, optimizer and loader anew, which is the point of a trial."""

import optuna
import torch
from forest import Forest
from torch import nn
from torch.utils.data import DataLoader, random_split

device = torch.device("cuda")


def build(trial, features, classes):
    layers, width = [], features
    for number in range(trial.suggest_int("depth", 1, 4)):
        out = trial.suggest_categorical(f"width{number}", [64, 128, 256])
        layers += [nn.Linear(width, out), nn.BatchNorm1d(out), nn.ReLU()]
        width = out
    return nn.Sequential(*layers, nn.Linear(width, classes)).to(device)


def objective(trial):
    data = Forest("/data/covtype.npz")
    train_set, val_set = random_split(data, [0.9, 0.1], torch.Generator().manual_seed(0))
    batch_size = trial.suggest_categorical("batch_size", [256, 1024])
    train = DataLoader(train_set, batch_size, shuffle=True, num_workers=4, drop_last=True)
    val = DataLoader(val_set, 4096, num_workers=2)
    model = build(trial, data.features, data.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=trial.suggest_float("lr", 1e-4, 1e-2, log=True))
    accuracy = 0.0
    for epoch in range(10):
        model.train()
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in val:
                right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
        accuracy = right / len(val_set)
        trial.report(accuracy, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return accuracy


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=60, gc_after_trial=True, callbacks=[lambda *_: torch.cuda.empty_cache()])
    print(study.best_value, study.best_params)
