from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence


def read(path, words, tags):
    rows, row = [], []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line:
            word, tag = line.split("\t")
            row.append((words.get(word.lower(), 1), tags[tag]))
        elif row:
            rows.append(torch.tensor(row))
            row = []
    return rows


def collate(rows):
    batch = pad_sequence(rows, batch_first=True)
    return batch[..., 0], batch[..., 1]
