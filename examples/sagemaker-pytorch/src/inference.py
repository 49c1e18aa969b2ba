"""Handler of the endpoint: only this code moves the model and the data to the GPU, SageMaker does not."""

from pathlib import Path

import torch
from network import build

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir: str) -> torch.nn.Module:
    """Load the weights onto the GPU, once for each worker."""
    model = build()
    model.load_state_dict(torch.load(Path(model_dir, "model.pt"), map_location="cpu", weights_only=True))
    return model.to(device).eval()


def predict_fn(data: torch.Tensor, model: torch.nn.Module) -> torch.Tensor:
    """The digit on each image; `data` has the shape (count, 8, 8)."""
    with torch.no_grad():
        return model(data.to(device).float()[:, None]).argmax(1).cpu()
