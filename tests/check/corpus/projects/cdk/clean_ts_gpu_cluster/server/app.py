import torch
from flask import Flask, request
from torch import nn

device = torch.device("cuda")
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4)).to(device).eval()
app = Flask(__name__)


@app.post("/predict")
def predict():
    rows = torch.tensor(request.get_json()["rows"], device=device)
    with torch.inference_mode():
        return {"classes": model(rows).argmax(1).tolist()}
