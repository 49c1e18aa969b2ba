import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def loader(path, batch_size, train):
    stored = np.load(path)
    pings = torch.from_numpy(stored["pings"]).float()
    labels = torch.from_numpy(stored["labels"]).long()
    return DataLoader(
        TensorDataset(pings, labels), batch_size=batch_size, shuffle=train, num_workers=4, pin_memory=True
    )
