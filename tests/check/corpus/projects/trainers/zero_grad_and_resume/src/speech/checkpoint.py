from pathlib import Path

import torch


def save(trainer, path):
    torch.save(
        {
            "epoch": trainer.epoch,
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
        },
        path,
    )


def resume(trainer, path):
    if not Path(path).exists():
        return
    stored = torch.load(path, map_location=trainer.device, weights_only=True)
    trainer.model.load_state_dict(stored["model"])
    trainer.epoch = stored["epoch"] + 1
