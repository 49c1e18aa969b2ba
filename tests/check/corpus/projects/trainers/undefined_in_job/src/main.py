import argparse
import os

from sky.galaxies import Galaxies
from sky.net import make_net
from sky.trainer import SkyTrainer
from torch.utils.data import DataLoader

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    loader = DataLoader(
        Galaxies(os.environ["SM_CHANNEL_NIGHTS"]), batch_size=64, shuffle=True, num_workers=7, pin_memory=True
    )
    trainer = SkyTrainer(make_net(), args.epochs)
    trainer.fit(loader)
    trainer.save(os.environ["SM_MODEL_DIR"])
