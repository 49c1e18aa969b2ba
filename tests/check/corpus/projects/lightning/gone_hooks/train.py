import sys

import pytorch_lightning as pl
from torch.utils.data import DataLoader

sys.path.insert(0, "src")
from litgpt_small.module import CharModel  # noqa: E402
from litgpt_small.text import Windows  # noqa: E402

if __name__ == "__main__":
    loader = DataLoader(Windows("data/shakespeare.txt"), batch_size=64, shuffle=True, num_workers=4, drop_last=True)
    trainer = pl.Trainer(
        gpus=1,
        max_epochs=20,
        precision="16-mixed",
        default_root_dir="runs",
    )
    trainer.fit(CharModel(), loader)
