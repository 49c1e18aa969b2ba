import argparse

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--fold", type=int, required=True)
parser.add_argument("--folds", type=int, default=5)
args = parser.parse_args()
stored = np.load("spectra.npz")
test = stored["patient"] % args.folds == args.fold
np.savez(
    f"fold{args.fold}.npz",
    x=stored["x"][~test],
    y=stored["y"][~test],
    x_test=stored["x"][test],
    y_test=stored["y"][test],
)
