import os

import torch
from torch import nn
from torchvision.models import resnet18

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = resnet18()
model.fc = nn.Linear(512, 3)
model.load_state_dict(torch.load(os.environ["MODEL_PATH"], map_location=device, weights_only=True))
model.to(device).eval()


def predict(images):
    batch = torch.stack(images).to(device)
    scores = model(batch)
    return scores.softmax(1).tolist()
