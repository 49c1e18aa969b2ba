import torch
from torch.nn.functional import pad

WORDS = "backward bed bird cat dog down eight five follow forward four go happy house learn left marvin".split()
WORDS += "nine no off on one right seven sheila six stop three tree two up visual wow yes zero".split()


def collate(rows):
    signals = torch.stack([pad(row[0], (0, 16_000 - row[0].shape[1])) for row in rows])
    return signals, torch.tensor([WORDS.index(row[2]) for row in rows])
