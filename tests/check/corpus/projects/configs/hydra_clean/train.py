"""Hydra: paths are of the folder of the run, and objects are built from the settings."""

import hydra
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch.utils.data import DataLoader


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(settings: DictConfig) -> None:
    torch.manual_seed(settings.seed)
    device = torch.device(settings.device)
    data = instantiate(settings.data)
    loader = DataLoader(data, batch_size=512, shuffle=True, num_workers=4, pin_memory=True)
    model = instantiate(settings.model).to(device)
    model(data[0][0].unsqueeze(0).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.lr)
    for _ in range(settings.epochs):
        for points, areas in loader:
            loss = (model(points.to(device)).squeeze(1) - areas.to(device)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
