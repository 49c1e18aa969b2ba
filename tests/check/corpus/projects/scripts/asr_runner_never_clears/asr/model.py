from torch import nn


class Ctc(nn.Module):
    def __init__(self, letters, width=512):
        super().__init__()
        self.inp = nn.Conv1d(80, width, 5, stride=2, padding=2)
        self.rnn = nn.GRU(width, width // 2, 4, batch_first=True, bidirectional=True, dropout=0.1)
        self.out = nn.Linear(width, letters)

    def forward(self, x, lengths):
        h, _ = self.rnn(self.inp(x.transpose(1, 2)).relu().transpose(1, 2))
        return self.out(h).log_softmax(-1), (lengths + 1) // 2
