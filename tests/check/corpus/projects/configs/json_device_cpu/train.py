import argparse
import json
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.encoder = nn.LSTM(channels, hidden, batch_first=True)
        self.decoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, channels)

    def forward(self, x):
        _, (state, _) = self.encoder(x)
        repeated = state[-1].unsqueeze(1).expand(-1, x.size(1), -1)
        return self.head(self.decoder(repeated)[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    with open(args.settings) as file:
        settings = json.load(file)
    device = torch.device(settings["device"])
    path = os.path.join(os.environ["SM_CHANNEL_SENSORS"], "sensors.pt")
    series = torch.load(path, map_location="cpu", weights_only=True)
    windows = series.unfold(0, settings["window"], settings["window"]).transpose(1, 2).contiguous()
    loader = DataLoader(TensorDataset(windows), settings["batch_size"], shuffle=True, num_workers=3)
    model = Autoencoder(series.size(1), settings["hidden"]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(1 if args.dry_run else settings["epochs"]):
        for (batch,) in loader:
            batch = batch.to(device)
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "autoencoder.pt"))


if __name__ == "__main__":
    main()
