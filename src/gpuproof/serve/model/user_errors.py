"""Recognizes errors raised by handlers and frameworks that are caused by the request, and turns them into 4xx errors."""

from __future__ import annotations

import json
import re
import traceback
from functools import lru_cache
from typing import Any

from gpuproof.serve.codecs import json as json_text
from gpuproof.serve.errors import RequestError
from gpuproof.util.csv_table import read_package_rows

_OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|DefaultCPUAllocator: (?:can't|not enough)"
    r"|OOM when allocating|failed to allocate memory|Out of memory while trying to allocate|RESOURCE_EXHAUSTED"
)
_HOST_MEMORY = re.compile(r"DefaultCPUAllocator|device:CPU:\d+ by allocator|by allocator cpu\b|mklcpu")
"""Of PyTorch, and of TensorFlow."""
_TYPE_WORDS = re.compile(
    r"(unsupported|not supported|invalid|unknown|unrecogni[sz]ed|cannot|can't|only)", re.IGNORECASE
)
_INPUT_WORDS = re.compile(r"content[\s_-]*type|media[\s_-]*type|mime", re.IGNORECASE)
_OUTPUT_WORDS = re.compile(r"content[\s_-]*type|media[\s_-]*type|mime|accept", re.IGNORECASE)
_IMAGE_ERRORS = frozenset({"UnidentifiedImageError", "DecompressionBombError"})


def is_out_of_host_memory(error: BaseException) -> bool:
    """Whether it was the memory of the machine that ran out, not that of a GPU."""
    return isinstance(error, MemoryError) or bool(_HOST_MEMORY.search(str(error)))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device or the machine ran out of memory."""
    if isinstance(error, MemoryError):
        return True
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"OutOfMemoryError", "ResourceExhaustedError"}) or bool(
        _OUT_OF_MEMORY.search(str(error))
    )


def prediction_error(error: BaseException, data: Any = None) -> RequestError | None:
    """422 with expected and given shape if the model rejected the data's shape or type; else `None`.

    Only known messages count: others may contain paths, and may be caused by the model itself.

    Args:
        data: the model's input, for its shape if the error does not contain it.
    """
    if is_out_of_memory(error):
        return None
    text = str(error)
    for pattern, words in _known_errors():
        match = pattern.search(text)
        if match is not None:
            message = match.expand(words)
            shape = getattr(data, "shape", None)
            if "given" not in message and shape is not None:
                message = f"{message}, given shape {tuple(shape)}"
            return RequestError(422, f"The model rejects the data: {message}.")
    return None


def handler_error(error: BaseException) -> RequestError | None:
    """The status in an error that the handler raised with one of the toolkit's error classes; else `None`."""
    names = {cls.__name__ for cls in type(error).__mro__}
    status: Any = getattr(error, "status_code", None)
    if "BaseInferenceToolkitError" in names and isinstance(status, int) and 400 <= status <= 599:
        message: Any = (
            getattr(error, "message", None)
            or getattr(error, "phrase", None)
            or "The handler rejected the request."
        )
        return RequestError(status, str(message))
    return None


def decoding_error(error: BaseException, body: Any, content_type: str) -> RequestError | None:
    """400 or 415 if the error shows that `input_fn` could not decode the body; else `None`."""
    if isinstance(error, json.JSONDecodeError):
        return json_text.invalid_json(error)
    if isinstance(error, UnicodeDecodeError) and error.object == bytes(body):
        return RequestError(400, f"The body is not text: byte {error.start} is not UTF-8 ({error.reason}).")
    if type(error).__name__ in _IMAGE_ERRORS:
        return RequestError(400, "The body is not a valid image.")
    if _is_type_error(error, _INPUT_WORDS):
        return RequestError(
            415, f"The model does not accept {_ascii(content_type) or 'a body without a content type'}."
        )
    return None


def encoding_error(error: BaseException, accept: str) -> RequestError | None:
    """406 if the error shows that `output_fn` does not support the requested type; else `None`."""
    if _is_type_error(error, _OUTPUT_WORDS):
        return RequestError(406, f"The model cannot respond with {_ascii(accept)}.")
    return None


@lru_cache(maxsize=1)
def _known_errors() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Error messages of frameworks for unsuitable data, and their translations; see `data/user_errors.csv` for the sources."""
    rows = read_package_rows("gpuproof.serve.model", "data/user_errors.csv")
    return tuple((re.compile(row["pattern"], re.DOTALL), row["words"]) for row in rows)


def _is_type_error(error: BaseException, words: re.Pattern[str]) -> bool:
    """Whether it is the toolkit's error for unsupported types, or an error as in AWS's example handlers."""
    if type(error).__name__ == "UnsupportedFormatError":
        return True
    if isinstance(error, AssertionError):
        # Many handlers contain `assert request_content_type == "application/json"` without a message.
        asserted = [step.line for step in traceback.extract_tb(error.__traceback__, limit=-1)]
        return bool(words.search(f"{asserted} {error}"))
    if type(error) not in (Exception, ValueError, TypeError, RuntimeError, NotImplementedError):
        return False
    text = str(error)
    return bool(_TYPE_WORDS.search(text) and words.search(text))


def _ascii(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)[:100]
