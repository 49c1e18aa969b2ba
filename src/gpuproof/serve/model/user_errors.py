"""Which errors of frameworks are the request's fault: known texts become 422 with the shapes, all else is the model's."""

from __future__ import annotations

import csv
import io
import json
import pkgutil
import re
import traceback
from functools import lru_cache
from typing import Any

from gpuproof.serve.codecs import json as json_text
from gpuproof.serve.errors import RequestError

_OUT_OF_MEMORY = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|DefaultCPUAllocator: (?:can't|not enough)"
    r"|OOM when allocating|failed to allocate memory|Out of memory while trying to allocate|RESOURCE_EXHAUSTED"
)
_TYPE_WORDS = re.compile(
    r"(unsupported|not supported|invalid|unknown|unrecogni[sz]ed|cannot|can't|only)", re.IGNORECASE
)
_INPUT_WORDS = re.compile(r"content[\s_-]*type|media[\s_-]*type|mime", re.IGNORECASE)
_OUTPUT_WORDS = re.compile(r"content[\s_-]*type|media[\s_-]*type|mime|accept", re.IGNORECASE)
_UNREADABLE = frozenset({"UnidentifiedImageError", "DecompressionBombError"})


def out_of_memory(error: BaseException) -> bool:
    """Whether the device ran out of memory."""
    if isinstance(error, MemoryError):
        return True
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"OutOfMemoryError", "ResourceExhaustedError"}) or bool(
        _OUT_OF_MEMORY.search(str(error))
    )


def refused(error: BaseException, data: Any = None) -> RequestError | None:
    """422 with expected and given shape, where the model refused the data's shape or type; else `None`.

    Known texts alone: an unknown error may hold paths, and may be the model's own fault.

    Args:
        error: what the model raised.
        data: what it was given, for its shape where the error does not tell it.
    """
    if out_of_memory(error):
        return None
    text = str(error)
    for pattern, words in _known():
        match = pattern.search(text)
        if match is not None:
            said = match.expand(words)
            shape = getattr(data, "shape", None)
            if "given" not in said and shape is not None:
                said = f"{said}, given shape {tuple(shape)}"
            return RequestError(422, f"The model refuses the data: {said}.")
    return None


def told_by_handler(error: BaseException) -> RequestError | None:
    """The status that an error of the handler's carries itself: those of the toolkit's error classes."""
    names = {cls.__name__ for cls in type(error).__mro__}
    status: Any = getattr(error, "status_code", None)
    if "BaseInferenceToolkitError" in names and isinstance(status, int) and 400 <= status <= 599:
        said: Any = (
            getattr(error, "message", None)
            or getattr(error, "phrase", None)
            or "The handler refuses the request."
        )
        return RequestError(status, str(said))
    return None


def unreadable(error: BaseException, body: Any, content_type: str) -> RequestError | None:
    """400 or 415, where an `input_fn` could not read the body, by errors that say so; else `None`."""
    if isinstance(error, json.JSONDecodeError):
        return json_text.invalid(error)
    if isinstance(error, UnicodeDecodeError) and error.object == bytes(body):
        return RequestError(400, f"The body is no text: byte {error.start} is not UTF-8 ({error.reason}).")
    if type(error).__name__ in _UNREADABLE:
        return RequestError(400, "The body is no image that can be read.")
    if _says_type(error, _INPUT_WORDS):
        return RequestError(
            415, f"The model does not take {_ascii(content_type) or 'a body without a content type'}."
        )
    return None


def unanswerable(error: BaseException, accept: str) -> RequestError | None:
    """406, where an `output_fn` does not make the form of answer that is asked for; else `None`."""
    if _says_type(error, _OUTPUT_WORDS):
        return RequestError(406, f"The model cannot answer as {_ascii(accept)}.")
    return None


@lru_cache(maxsize=1)
def _known() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What frameworks say of data that does not fit, and how to say it; `data/refusals.csv` has the sources."""
    text = (pkgutil.get_data("gpuproof.serve.model", "data/user_errors.csv") or b"").decode()
    rows = csv.DictReader(io.StringIO(text))
    return tuple((re.compile(row["pattern"], re.DOTALL), row["words"]) for row in rows)


def _says_type(error: BaseException, words: re.Pattern[str]) -> bool:
    """Whether it is the toolkit's error for unknown types, or what AWS's examples of handlers raise in words."""
    if type(error).__name__ == "UnsupportedFormatError":
        return True
    if isinstance(error, AssertionError):
        # `assert request_content_type == "application/json"` is in very many of them, without a word.
        asserted = [step.line for step in traceback.extract_tb(error.__traceback__, limit=-1)]
        return bool(words.search(f"{asserted} {error}"))
    if type(error) not in (Exception, ValueError, TypeError, RuntimeError, NotImplementedError):
        return False
    text = str(error)
    return bool(_TYPE_WORDS.search(text) and words.search(text))


def _ascii(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]", "?", text)[:100]
