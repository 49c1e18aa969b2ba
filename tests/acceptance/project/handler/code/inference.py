"""A model on the GPU, whose answer has the driver of its host."""

import json
import re

import torch


def model_fn(folder):
    print("acceptance: host", json.dumps(host()), flush=True)
    return torch.nn.Linear(2, 1).cuda()


def predict_fn(rows, model):
    model(torch.tensor(rows).float().cuda())
    return host()


def output_fn(answer, accept):
    return json.dumps(answer), "application/json"


def host():
    with open("/proc/driver/nvidia/version") as file:
        found = re.search(r"Kernel Module\D*\s([0-9.]+)", file.read())
    return {"driver": found and found.group(1), "cuda": torch.version.cuda}
