import torch
import torchaudio
from torch.nn.utils.rnn import pad_sequence

LETTERS = {letter: number for number, letter in enumerate("_ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def collate(rows):
    waves = [row[0][0] for row in rows]
    texts = [torch.tensor([LETTERS[letter] for letter in row[2]]) for row in rows]
    lengths = torch.tensor([len(wave) for wave in waves])
    text_lengths = torch.tensor([len(text) for text in texts])
    return pad_sequence(waves, batch_first=True), lengths, pad_sequence(texts, batch_first=True), text_lengths


def dataset(root, part="train-clean-100"):
    return torchaudio.datasets.LIBRISPEECH(root, part, download=True)
