import numpy as np
import torch
from torch.utils.data import Dataset


class LoadCurves(Dataset):
    """Week-long windows of hourly load and the day that follows."""

    def __init__(self, path, start, end, window=168, horizon=24):
        series = np.load(path)["load"][start:end].astype("float32")
        self.series = torch.from_numpy((series - series.mean()) / series.std())
        self.window, self.horizon = window, horizon

    def __len__(self):
        return len(self.series) - self.window - self.horizon + 1

    def __getitem__(self, index):
        middle = index + self.window
        return self.series[index:middle], self.series[middle : middle + self.horizon]
