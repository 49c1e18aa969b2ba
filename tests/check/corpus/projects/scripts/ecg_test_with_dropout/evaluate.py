import sys

import torch

from ecg import loader
from encoder import Encoder

device = torch.device("cuda")
model = Encoder()
model.load_state_dict(torch.load("encoder.pt", map_location="cpu", weights_only=True))
model.to(device)
confusion = torch.zeros(5, 5, dtype=torch.long)
with torch.inference_mode():
    for x, y in loader(sys.argv[1], "test"):
        for truth, guess in zip(y.tolist(), model(x.to(device)).argmax(1).tolist()):
            confusion[truth, guess] += 1
print(confusion)
