import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.net = nn.Sequential(
            nn.BatchNorm1d(columns), nn.Linear(columns, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 1)
        )

    def forward(self, rows):
        return self.net(rows).squeeze(1)


def fit(train, test, columns, epochs=20):
    torch.autograd.set_detect_anomaly(True)
    device = torch.device("cuda")
    model = Scorer(columns).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        model.train()
        for rows, labels in train:
            loss = criterion(model(rows.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()
        print(epoch, accuracy(model, test, device), flush=True)
    return model


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    right = count = 0
    for rows, labels in loader:
        right += ((model(rows.to(device)) > 0) == (labels.to(device) > 0.5)).sum().item()
        count += len(labels)
    return right / count
