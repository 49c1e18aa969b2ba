"""`decode(body, content_type)` as in sagemaker-inference: decodes bodies as numpy arrays."""

from __future__ import annotations

from typing import Any

from gpuproof.serve.codecs import registry
from sagemaker_inference import content_types, errors

_KNOWN = (content_types.NPY, content_types.CSV, content_types.JSON, content_types.NPZ)


def decode(obj: Any, content_type: str) -> Any:
    """Decode a body as an array. Raises UnsupportedFormatError."""
    if content_type not in _KNOWN:
        raise errors.UnsupportedFormatError(content_type)
    return registry.read_body(obj.encode() if isinstance(obj, str) else bytes(obj), content_type)
