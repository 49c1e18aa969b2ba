"""A small ranker that trains on a CPU in minutes: torch is here for its embedding tables only."""

import lightgbm as lgb
import pandas as pd
import torch
from torch import nn


def embeddings(frame, width=16):
    pairs = torch.tensor(frame[["query_id", "page_id"]].to_numpy(), dtype=torch.long)
    clicked = torch.tensor(frame["clicked"].to_numpy("float32"))
    queries = nn.Embedding(int(pairs[:, 0].max()) + 1, width)
    pages = nn.Embedding(int(pairs[:, 1].max()) + 1, width)
    optimizer = torch.optim.Adam([*queries.parameters(), *pages.parameters()], lr=0.01)
    for _ in range(5):
        for rows in torch.randperm(len(pairs)).split(4096):
            scores = (queries(pairs[rows, 0]) * pages(pairs[rows, 1])).sum(1)
            loss = nn.functional.binary_cross_entropy_with_logits(scores, clicked[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return (queries(pairs[:, 0]) * pages(pairs[:, 1])).numpy()


def main():
    frame = pd.read_parquet("s3://search-logs/yesterday.parquet").sort_values("query_id")
    ranker = lgb.LGBMRanker(n_estimators=300)
    ranker.fit(embeddings(frame), frame["clicked"], group=frame.groupby("query_id").size().to_numpy())
    ranker.booster_.save_model("/models/ranker.txt")


if __name__ == "__main__":
    main()
