"""Opts into batches: predict_fn gets the rows of several requests at once, and says how many there were."""

import torch

batch = True
max_batch_size = 8


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return {"doubled": x * 2 * self.one, "rows": torch.full((len(x),), float(len(x)))}


def model_fn(model_dir):
    return Net().to("cuda" if torch.cuda.is_available() else "cpu").eval()


def predict_fn(data, model):
    with torch.no_grad():
        return model(data)
