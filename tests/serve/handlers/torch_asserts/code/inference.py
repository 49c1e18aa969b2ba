"""The style of many posts: TorchScript, inputs under a name, and bare assertions about the content type."""

import json
import os

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    model = torch.jit.load(os.path.join(model_dir, "model.scripted.pt"), map_location=device)
    return model.eval()


def input_fn(request_body, request_content_type):
    assert request_content_type == "application/json"
    data = json.loads(request_body)["inputs"]
    return torch.tensor(data, dtype=torch.float32, device=device)


def predict_fn(input_object, model):
    with torch.no_grad():
        return model(input_object)


def output_fn(predictions, content_type):
    assert content_type == "application/json"
    return json.dumps(predictions.cpu().numpy().tolist())
