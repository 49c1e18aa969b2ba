import argparse
import os

import lightning as L
import torch
from birdsong.data import BirdsongData
from birdsong.model import BirdsongModel
from lightning.pytorch.callbacks import ModelCheckpoint


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    L.seed_everything(11, workers=True)
    torch.set_float32_matmul_precision("high")
    model_dir = os.environ["SM_MODEL_DIR"]
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        max_epochs=args.epochs,
        precision="bf16-mixed",
        callbacks=[ModelCheckpoint(dirpath=model_dir, monitor="val_f1", mode="max", save_top_k=1)],
    )
    trainer.fit(BirdsongModel(), datamodule=BirdsongData(os.environ["SM_CHANNEL_AUDIO"], args.batch_size))


if __name__ == "__main__":
    main()
