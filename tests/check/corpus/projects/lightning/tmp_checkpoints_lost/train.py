import os

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from tides import Gauges, Tides

if __name__ == "__main__":
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=50,
        callbacks=[ModelCheckpoint(dirpath="/tmp/checkpoints", monitor="val_loss")],
    )
    trainer.fit(Tides(), datamodule=Gauges(os.environ["SM_CHANNEL_GAUGES"]))
