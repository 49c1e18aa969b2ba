import argparse
import os

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

BASE = "/opt/ml/processing"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--test-share", type=float, default=0.1)
    args = parser.parse_args()
    frame = pd.read_csv(f"{BASE}/input/loans.csv")
    y = frame.pop("defaulted").to_numpy()
    x = frame.select_dtypes("number").fillna(0).to_numpy()
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=args.test_share, random_state=4, stratify=y)
    scaler = StandardScaler().fit(x_train)
    for name in ("train", "test"):
        os.makedirs(f"{BASE}/{name}", exist_ok=True)
    np.savez(f"{BASE}/train/train.npz", x=scaler.transform(x_train), y=y_train)
    np.savez(f"{BASE}/test/test.npz", x=scaler.transform(x_test), y=y_test)


if __name__ == "__main__":
    main()
