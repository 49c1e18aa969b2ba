import pytorch_lightning as pl

from sports.clips import Sports
from sports.net import SportsNet


def main():
    pl.seed_everything(2)
    data = Sports("/data/ucf101")
    model = SportsNet()
    trainer = pl.Trainer(
        accelerator="gpu",
        devices=1,
        auto_select_gpus=True,
        resume_from_checkpoint="last.ckpt",
        max_epochs=30,
    )
    trainer.tune(model, datamodule=data)
    trainer.fit(model, datamodule=data)


if __name__ == "__main__":
    main()
