import argparse

import deepspeed
import torch
from proteins import ALPHABET, Proteins
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, width=768, depth=12):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET) + 1, width, padding_idx=0)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 12, batch_first=True), depth)
        self.head = nn.Linear(width, len(ALPHABET) + 1)

    def forward(self, ids):
        hidden = ids.masked_fill(torch.rand(ids.shape, device=ids.device) < 0.15, 0)
        logits = self.head(self.body(self.embed(hidden)))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), ignore_index=0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--local_rank", type=int, default=0)
    args = deepspeed.add_config_arguments(parser).parse_args()
    model = Autoencoder()
    engine, _, loader, _ = deepspeed.initialize(
        args=args, model=model, model_parameters=model.parameters(), training_data=Proteins("/data/uniref.fa")
    )
    for ids in loader:
        loss = engine(ids.to(engine.device))
        engine.backward(loss)
        engine.step()
    if engine.global_rank == 0:
        engine.save_checkpoint(args.output)


if __name__ == "__main__":
    main()
