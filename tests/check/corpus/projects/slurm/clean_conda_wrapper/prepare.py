import sys
from pathlib import Path

import torch
import torchaudio

folder = Path(sys.argv[1])
mel = torchaudio.transforms.MelSpectrogram(192_000, n_fft=1024, n_mels=80)
for path in folder.glob("*.wav"):
    wave, _ = torchaudio.load(path)
    torch.save(mel(wave).log1p(), path.with_suffix(".pt"))
