import torch
from torch.utils.data import Dataset

ALPHABET = {letter: number for number, letter in enumerate("-ACDEFGHIKLMNPQRSTVWY", 1)}


class Proteins(Dataset):
    def __init__(self, path, length=512):
        with open(path) as file:
            self.rows = [line.strip() for line in file if not line.startswith(">")]
        self.length = length

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        ids = [ALPHABET.get(letter, 0) for letter in self.rows[index][: self.length]]
        return torch.tensor(ids + [0] * (self.length - len(ids)))
