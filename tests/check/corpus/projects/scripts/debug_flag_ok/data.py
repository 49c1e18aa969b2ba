import json

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

PAD = 0


class Tagged(Dataset):
    def __init__(self, path):
        with open(path) as f:
            self.rows = [json.loads(line) for line in f]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return torch.tensor(row["ids"]), torch.tensor(row["tags"])


def collate(rows):
    ids, tags = zip(*rows)
    return pad_sequence(ids, True, PAD), pad_sequence(tags, True, -100)
