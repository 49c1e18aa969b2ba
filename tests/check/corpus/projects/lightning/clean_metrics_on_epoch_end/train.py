import pytorch_lightning as pl
from reviews import Reviews
from sentiment import Sentiment

if __name__ == "__main__":
    pl.seed_everything(0)
    trainer = pl.Trainer(accelerator="gpu", devices=1, max_epochs=3, precision="16-mixed")
    trainer.fit(Sentiment(), datamodule=Reviews())
