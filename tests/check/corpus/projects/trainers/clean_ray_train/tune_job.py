"""Ray Train: prepare_model wraps and moves, prepare_data_loader adds the sampler and moves the batches."""

import tempfile
from pathlib import Path

import ray.train
import ray.train.torch
import torch
from nets import make_net
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import FashionMNIST
from torchvision.transforms import ToTensor


def train_loop(config):
    data = FashionMNIST("/mnt/data", transform=ToTensor())
    loader = DataLoader(data, batch_size=config["batch_size"], shuffle=True, num_workers=2)
    loader = ray.train.torch.prepare_data_loader(loader)
    model = ray.train.torch.prepare_model(make_net(config["width"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    criterion = nn.CrossEntropyLoss()
    for epoch in range(config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for images, labels in loader:
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                torch.save(getattr(model, "module", model).state_dict(), Path(folder, "model.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"loss": total / len(loader)}, checkpoint=checkpoint)


if __name__ == "__main__":
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"lr": 1e-3, "batch_size": 64, "epochs": 8, "width": 128},
        scaling_config=ScalingConfig(num_workers=4, use_gpu=True),
        run_config=RunConfig(storage_path="/mnt/results", name="fashion"),
    )
    print(trainer.fit().metrics)
