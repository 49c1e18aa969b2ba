"""The handler, in the form that SageMaker's containers take; peers import the same two functions."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import models
import torch

batch = True


def model_fn(model_dir: str) -> Any:
    """The model, in evaluation mode."""
    return models.load(model_dir)


def predict_fn(data: torch.Tensor, model: Any) -> torch.Tensor:
    """Predictions for a batch of one or more items."""
    with torch.inference_mode():
        return model(data)
