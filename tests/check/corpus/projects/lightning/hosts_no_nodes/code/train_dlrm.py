import argparse
import os

import pytorch_lightning as pl
from clicks import Clicks
from dlrm import DLRM
from torch.utils.data import DataLoader

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    data = Clicks(os.environ["SM_CHANNEL_CLICKS"])
    loader = DataLoader(data, batch_size=4096, shuffle=True, num_workers=8, pin_memory=True)
    trainer = pl.Trainer(
        accelerator="gpu",
        devices=4,
        strategy="ddp",
        max_epochs=args.epochs,
        precision="16-mixed",
    )
    model = DLRM()
    trainer.fit(model, loader)
    trainer.save_checkpoint(os.path.join(os.environ["SM_MODEL_DIR"], "dlrm.ckpt"))
