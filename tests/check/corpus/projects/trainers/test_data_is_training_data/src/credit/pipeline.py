import pandas as pd
import torch
from torch.utils.data import DataLoader, TensorDataset


def rows(frame):
    labels = torch.tensor(frame["default"].to_numpy("float32"))
    return TensorDataset(torch.tensor(frame.drop(columns="default").to_numpy("float32")), labels)


def loaders(path):
    frame = pd.read_parquet(path).sample(frac=1, random_state=4)
    cut = int(0.8 * len(frame))
    train_rows, test_rows = rows(frame[:cut]), rows(frame[cut:])
    train = DataLoader(train_rows, batch_size=1024, shuffle=True, num_workers=2)
    test = DataLoader(train_rows, batch_size=4096, num_workers=2)
    print(f"{len(train_rows)} rows to train, {len(test_rows)} to test")
    return train, test
