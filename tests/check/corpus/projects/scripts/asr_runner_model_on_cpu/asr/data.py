import torch
import torchaudio
from torch.nn.utils.rnn import pad_sequence

ALPHABET = "_ 'abcdefghijklmnopqrstuvwxyz"
mel = torchaudio.transforms.MelSpectrogram(16000, n_mels=80, hop_length=160)


def encode(text):
    return torch.tensor([ALPHABET.index(c) for c in text.lower() if c in ALPHABET])


def collate(rows):
    features, targets = [], []
    for waveform, _, text, *_ in rows:
        features.append(mel(waveform).squeeze(0).clamp(min=1e-5).log().T)
        targets.append(encode(text))
    lengths = torch.tensor([len(f) for f in features])
    target_lengths = torch.tensor([len(t) for t in targets])
    return pad_sequence(features, batch_first=True), torch.cat(targets), lengths, target_lengths
