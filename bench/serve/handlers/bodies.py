"""Bodies to tensors and back, as those write it whose server brings nothing of the kind."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import torch


def read(body: Any, content_type: str) -> torch.Tensor:
    """A body of JSON, JSON that was parsed already, or NPY."""
    if content_type.startswith("application/x-npy"):
        return torch.from_numpy(np.load(io.BytesIO(body), allow_pickle=False))
    parsed = json.loads(body) if isinstance(body, (bytes, bytearray, str)) else body
    return torch.tensor(parsed, dtype=torch.float32)


def write(prediction: torch.Tensor, content_type: str) -> Any:
    """The answer in the form of the question; what becomes JSON is left to the server."""
    if not content_type.startswith("application/x-npy"):
        return prediction.tolist()
    stream = io.BytesIO()
    np.save(stream, prediction.numpy())
    return stream.getvalue()
