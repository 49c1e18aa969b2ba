import torch
from torch import nn


class CharLSTM(nn.Module):
    def __init__(self, vocab_size, hidden_size=512, layers=2, dropout=0.3):
        super().__init__()
        self.hidden_size = hidden_size
        self.layers = layers
        self.embed = nn.Embedding(vocab_size, hidden_size)
        self.lstm = nn.LSTM(hidden_size, hidden_size, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(hidden_size, vocab_size)

    def forward(self, x, hidden):
        out, hidden = self.lstm(self.embed(x), hidden)
        return self.head(out), hidden

    def init_hidden(self, batch_size):
        shape = (self.layers, batch_size, self.hidden_size)
        weight = next(self.parameters())
        return weight.new_zeros(shape), weight.new_zeros(shape)
