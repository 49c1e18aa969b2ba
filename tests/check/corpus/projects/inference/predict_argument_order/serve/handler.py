import io
import os

import numpy as np
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")



def load_net(folder):
    net = torch.jit.load(os.path.join(folder, "depth.ts"), map_location=DEVICE)
    return net.eval()


def model_fn(model_dir):
    return load_net(model_dir)


def input_fn(body, content_type):
    assert content_type == "application/x-npy"
    return torch.from_numpy(np.load(io.BytesIO(body))).float()


def predict_fn(model, image):
    with torch.no_grad():
        return model(image.to(DEVICE)).cpu().numpy()


def output_fn(prediction, accept):
    buffer = io.BytesIO()
    np.save(buffer, prediction)
    return buffer.getvalue()
