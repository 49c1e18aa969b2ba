import os

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    model = torch.nn.Linear(3, 2)
    model.load_state_dict(
        torch.load(os.path.join(model_dir, "model.pth"), map_location=DEVICE, weights_only=True)
    )
    return model.to(DEVICE).eval()


def predict_fn(data, model):
    with torch.inference_mode():
        return model(torch.as_tensor(data, device=DEVICE)).cpu().numpy()
