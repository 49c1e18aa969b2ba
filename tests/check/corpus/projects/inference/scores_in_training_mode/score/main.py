import argparse

import pandas as pd
import torch

from score.scorer import Scorer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--weights", default="wide.pt")
    parser.add_argument("--out", default="scores.parquet")
    args = parser.parse_args()
    df = pd.read_parquet(args.table)
    x = torch.from_numpy(df.filter(like="f_").to_numpy("float32"))
    scorer = Scorer(args.weights)
    df["score"] = scorer.run(x).numpy()
    df[["id", "score"]].to_parquet(args.out)


if __name__ == "__main__":
    main()
