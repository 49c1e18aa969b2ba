import torch


class Callback:
    def on_epoch_end(self, trainer, epoch, loss):
        pass


class SaveBest(Callback):
    def __init__(self, path):
        self.path, self.best = path, float("inf")

    def on_epoch_end(self, trainer, epoch, loss):
        if loss < self.best:
            self.best = loss
            torch.save({"epoch": epoch, **trainer.state_dict()}, self.path)


class LossHistory(Callback):
    """Keeps the losses: they are numbers already, and hold no graph."""

    def __init__(self):
        self.losses = []

    def on_epoch_end(self, trainer, epoch, loss):
        self.losses.append(loss)
