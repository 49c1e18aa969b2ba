import lightning.pytorch as pl
from lightning.pytorch.callbacks import EarlyStopping
from torch.utils.data import DataLoader

from forecaster.lstm import LSTMForecaster
from forecaster.series import LoadCurves


def main():
    train = LoadCurves("data/load.npz", 0, 40_000)
    val = LoadCurves("data/load.npz", 40_000, 48_000)
    stop = EarlyStopping(monitor="valid_loss", patience=5)
    trainer = pl.Trainer(accelerator="gpu", devices=1, max_epochs=100, callbacks=[stop])
    trainer.fit(
        LSTMForecaster(),
        DataLoader(train, batch_size=256, shuffle=True, num_workers=4),
        DataLoader(val, batch_size=512, num_workers=4),
    )


if __name__ == "__main__":
    main()
