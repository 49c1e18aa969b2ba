import json
import os
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn
from torch.utils.data import DataLoader
from treebank import collate, read

TAGS = {tag: number for number, tag in enumerate("_ NOUN VERB ADJ ADV PRON DET ADP NUM CONJ PRT PUNCT X".split())}


class Tagger(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.rnn = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * width, len(TAGS))

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


def main(
    vocabulary: Annotated[Path, typer.Option(help="A JSON file with the number of each word.")],
    epochs: int = 10,
    width: int = 200,
):
    words = json.loads(vocabulary.read_text())
    device = torch.device("cuda")
    rows = read(os.path.join(os.environ["SM_CHANNEL_TREEBANK"], "train.tsv"), words, TAGS)
    loader = DataLoader(rows, batch_size=64, shuffle=True, num_workers=3, collate_fn=collate)
    model = Tagger(len(words) + 2, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        for ids, tags in loader:
            logits = model(ids.to(device))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.to(device).flatten(), ignore_index=0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), flush=True)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "tagger.pt"))


if __name__ == "__main__":
    typer.run(main)
