import json

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab, dim=384, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 6, 4 * dim, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth)

    def forward(self, tokens):
        mask = tokens == 0
        h = self.blocks(self.embed(tokens), src_key_padding_mask=mask).masked_fill(mask[..., None], 0)
        return nn.functional.normalize(h.sum(1) / (~mask).sum(1, keepdim=True).clamp(min=1), dim=-1)


def load_encoder(folder, device):
    with open(f"{folder}/vocab.json") as f:
        vocab = json.load(f)
    encoder = Encoder(len(vocab) + 2)
    encoder.load_state_dict(torch.load(f"{folder}/encoder.pt", map_location="cpu", weights_only=True))
    return encoder.to(device).eval(), vocab
