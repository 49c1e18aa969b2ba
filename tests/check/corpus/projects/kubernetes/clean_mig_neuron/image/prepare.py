import sys

import pandas as pd
import torch

frame = pd.read_parquet(sys.argv[1])
columns = frame.drop(columns="target").astype("float32")
scaled = (columns - columns.mean()) / columns.std()
torch.save(
    {"x": torch.from_numpy(scaled.to_numpy()), "y": torch.from_numpy(frame["target"].to_numpy("float32"))},
    "/table/table.pt",
)
