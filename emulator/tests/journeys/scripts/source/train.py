"""Reads its channel, prints its hyperparameters and environment, and saves a model."""

import argparse
import json
import os

from beside import GREETING

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
arguments, _ = parser.parse_known_args()
for epoch in range(arguments.epochs):
    print(f"epoch {epoch} loss={1 / (epoch + 1)}", flush=True)
channel = os.environ["SM_CHANNEL_TRAINING"]
report = {
    "greeting": GREETING,
    "name": arguments.name,
    "epochs": arguments.epochs,
    "files": sorted(os.listdir(channel)),
    "variable": os.environ.get("VARIABLE"),
    "framework": os.environ.get("SM_FRAMEWORK_MODULE"),
}
with open(os.path.join(os.environ["SM_MODEL_DIR"], "report.json"), "w") as file:
    json.dump(report, file)
