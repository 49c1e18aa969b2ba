"""`encode(array, content_type)` as in sagemaker-inference: encodes arrays as bodies; JSON and CSV as text."""

from __future__ import annotations

from typing import Any

from gpuproof.serve.codecs import registry
from sagemaker_inference import content_types, errors

SUPPORTED_CONTENT_TYPES = {content_types.NPY, content_types.CSV, content_types.JSON}


def encode(array_like: Any, content_type: str) -> Any:
    """Encode an array as a body. Raises UnsupportedFormatError."""
    if content_type not in SUPPORTED_CONTENT_TYPES:
        raise errors.UnsupportedFormatError(content_type)
    body = registry.write_body(array_like, content_type)
    return body if content_type == content_types.NPY else body.decode()
