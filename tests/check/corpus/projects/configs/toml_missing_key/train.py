import tomllib
from itertools import count
from pathlib import Path

import numpy as np
import torch
from model import Melody
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    settings = tomllib.loads(Path("settings.toml").read_text())
    device = torch.device("cuda")
    notes = torch.from_numpy(np.load(settings["data"]["path"]).astype("int64"))
    loader = DataLoader(
        TensorDataset(notes),
        batch_size=settings["data"]["batch"],
        shuffle=True,
        num_workers=settings["data"]["workers"],
        drop_last=True,
    )
    model = Melody(**settings["model"]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings["schedule"]["lr"])
    steps = settings["schedule"]["warmup_steps"]
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))
    step = 0
    for epoch in count():
        model.train()
        for (batch,) in loader:
            batch = batch.to(device)
            logits = model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            step += 1
            if step == settings["schedule"]["total"]:
                torch.save(model.state_dict(), "melody.pt")
                return
        print(epoch, step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
