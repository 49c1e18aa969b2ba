import glob
import os

import numpy as np
import pandas as pd

if __name__ == "__main__":
    frames = [pd.read_parquet(p) for p in glob.glob("/opt/ml/processing/input/**/*.parquet", recursive=True)]
    frame = pd.concat(frames).dropna()
    labels = frame.pop("fraud").to_numpy("float32")
    os.makedirs("/opt/ml/processing/train", exist_ok=True)
    np.savez("/opt/ml/processing/train/data.npz", x=frame.to_numpy("float32"), y=labels)
