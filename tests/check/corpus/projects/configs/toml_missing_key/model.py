import torch
from torch import nn


class Melody(nn.Module):
    def __init__(self, width, heads, layers, notes=130, length=512):
        super().__init__()
        self.notes = nn.Embedding(notes, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, notes)

    def forward(self, notes):
        mask = nn.Transformer.generate_square_subsequent_mask(notes.size(1), device=notes.device)
        x = self.notes(notes) + self.places[: notes.size(1)]
        return self.head(self.body(x, mask, is_causal=True))
