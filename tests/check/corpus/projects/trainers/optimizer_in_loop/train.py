from torch.utils.data import DataLoader
from torchaudio.datasets import SPEECHCOMMANDS
from wave_data import collate

from wave.net import WaveNet
from wave.trainer import WaveTrainer

if __name__ == "__main__":
    train = SPEECHCOMMANDS("data", download=True, subset="training")
    val = SPEECHCOMMANDS("data", download=True, subset="validation")
    options = {"num_workers": 6, "collate_fn": collate, "pin_memory": True}
    WaveTrainer(
        WaveNet(), DataLoader(train, 256, shuffle=True, **options), DataLoader(val, 256, **options)
    ).fit(20)
