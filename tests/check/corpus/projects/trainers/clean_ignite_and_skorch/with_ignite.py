"""The engines of Ignite switch modes, move batches and clear gradients."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import ModelCheckpoint, global_step_from_engine
from ignite.metrics import Accuracy, Loss
from models import Net
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import MNIST
from torchvision.transforms import ToTensor

if __name__ == "__main__":
    device = torch.device("cuda")
    train = DataLoader(MNIST("data", download=True, transform=ToTensor()), 128, shuffle=True, num_workers=4)
    val = DataLoader(MNIST("data", train=False, download=True, transform=ToTensor()), 512, num_workers=4)
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion, device)
    evaluator = create_supervised_evaluator(model, {"accuracy": Accuracy(), "nll": Loss(criterion)}, device)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate(engine):
        evaluator.run(val)
        print(engine.state.epoch, evaluator.state.metrics)

    best = ModelCheckpoint(
        "checkpoints", score_name="accuracy", n_saved=1, global_step_transform=global_step_from_engine(trainer)
    )
    evaluator.add_event_handler(Events.COMPLETED, best, {"model": model})
    trainer.run(train, max_epochs=10)
