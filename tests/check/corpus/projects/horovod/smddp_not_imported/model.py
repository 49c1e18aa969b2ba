from torch import nn
from torchvision.models import resnet50


class Captioner(nn.Module):
    def __init__(self, words=12_000, width=512):
        super().__init__()
        self.eyes = resnet50(weights="DEFAULT")
        self.eyes.fc = nn.Linear(2048, width)
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, images, captions):
        start = self.eyes(images).unsqueeze(0)
        states, _ = self.rnn(self.embed(captions), start)
        return self.out(states)
