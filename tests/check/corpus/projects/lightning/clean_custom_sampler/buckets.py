import random

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset


class Sentences(Dataset):
    def __init__(self, path):
        stored = torch.load(path, map_location="cpu", weights_only=True)
        self.ids, self.languages = stored["ids"], stored["languages"]
        self.lengths = [len(ids) for ids in self.ids]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return self.ids[index], self.languages[index]


def pad(rows):
    return pad_sequence([row[0] for row in rows], batch_first=True), torch.stack([row[1] for row in rows])


class BucketSampler:
    """Batches of sentences of similar lengths; the batches are dealt out to the ranks."""

    def __init__(self, lengths, batch_size, rank, replicas, seed=0):
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        batches = [order[i : i + batch_size] for i in range(0, len(order) - batch_size + 1, batch_size)]
        self.batches = batches[: len(batches) // replicas * replicas]
        self.rank, self.replicas, self.seed, self.epoch = rank, replicas, seed, 0

    def __len__(self):
        return len(self.batches) // self.replicas

    def __iter__(self):
        self.epoch += 1
        batches = list(self.batches)
        random.Random(self.seed + self.epoch).shuffle(batches)
        return iter(batches[self.rank :: self.replicas])
