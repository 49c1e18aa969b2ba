"""SageMaker script mode: trains, and contains the handlers of the endpoint."""

import argparse
import logging
import os
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from housing_net import get_model

logger = logging.getLogger(__name__)
logger.addHandler(logging.StreamHandler(sys.stdout))


def get_data(folder):
    x = torch.from_numpy(np.load(os.path.join(folder, "x_train.npy")))
    return TensorDataset(x, torch.from_numpy(np.load(os.path.join(folder, "y_train.npy"))))


def model_fn(model_dir):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = get_model()
    with open(os.path.join(model_dir, "model.pth"), "rb") as f:
        model.load_state_dict(torch.load(f, map_location=device))
    return model.to(device)


def input_fn(body, content_type):
    assert content_type == "application/json"
    return torch.tensor(np.array(eval(body)), dtype=torch.float32)


def predict_fn(input_object, model):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device)
    model.eval()
    with torch.no_grad():
        return model(input_object.float().to(device)).numpy()[0]


def train():
    args, _ = parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(get_data(args.train), batch_size=args.batch_size, shuffle=True, num_workers=2)
    model = get_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x.float().to(device)), y.float().to(device))
            loss.backward()
            optimizer.step()
        logger.info("epoch %d: %.4f", epoch, loss.item())
    torch.save(model.state_dict(), args.model_dir + "/model.pth")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--train", type=str, default=os.environ.get("SM_CHANNEL_TRAIN"))
    parser.add_argument("--model_dir", type=str, default=os.environ.get("SM_MODEL_DIR"))
    return parser.parse_known_args()


if __name__ == "__main__":
    train()
