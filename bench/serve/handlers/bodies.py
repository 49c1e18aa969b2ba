"""Conversion of bodies to tensors and back, for servers that have none."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import torch


def read(body: Any, content_type: str) -> torch.Tensor:
    """Read a body of JSON, parsed JSON or NPY."""
    if content_type.startswith("application/x-npy"):
        return torch.from_numpy(np.load(io.BytesIO(body), allow_pickle=False))
    parsed = json.loads(body) if isinstance(body, (bytes, bytearray, str)) else body
    return torch.tensor(parsed, dtype=torch.float32)


def write(prediction: torch.Tensor, content_type: str) -> Any:
    """Write the answer in the format of the request; JSON is encoded by the server."""
    if not content_type.startswith("application/x-npy"):
        return prediction.tolist()
    stream = io.BytesIO()
    np.save(stream, prediction.numpy())
    return stream.getvalue()
