from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset


class Clicks(Dataset):
    def __init__(self, folder):
        table = pq.read_table(sorted(Path(folder).glob("*.parquet")))
        frame = table.to_pandas()
        self.dense = torch.tensor(frame.filter(like="I").to_numpy("float32"))
        self.sparse = torch.tensor(frame.filter(like="C").to_numpy("int64")) % 200_000
        self.clicked = torch.tensor(frame["label"].to_numpy("float32"))

    def __len__(self):
        return len(self.clicked)

    def __getitem__(self, index):
        return self.dense[index], self.sparse[index], self.clicked[index]
