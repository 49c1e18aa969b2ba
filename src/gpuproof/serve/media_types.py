"""Media types: what a body is, and which form of answer a client would like best. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuproof.serve.errors import RequestError

JSON = "application/json"
JSON_LINES = "application/jsonlines"
CSV = "text/csv"
NPY = "application/x-npy"
NPZ = "application/x-npz"
OCTETS = "application/octet-stream"
TEXT = "text/plain"
ANY = "*/*"

TEXTS = (JSON, CSV)
"""Bodies that AWS's toolkits hand to `input_fn` as text: sagemaker_inference/content_types.py, `UTF8_TYPES`."""

_CHARSET = re.compile(r'\s*;\s*charset\s*=\s*("[^"]*"|[^;]*)', re.IGNORECASE)


@dataclass(frozen=True)
class Wish:
    """One entry of an `Accept` header."""

    media: str
    quality: float
    text: str


@lru_cache(maxsize=64)
def bare(header: str) -> str:
    """`application/json` of `Application/JSON; charset=utf-8`."""
    return header.partition(";")[0].strip().lower()


@lru_cache(maxsize=64)
def is_json(header: str) -> bool:
    """Whether a body of this type is JSON; one without a type is taken for it."""
    kind = bare(header) or JSON
    return kind == JSON or kind.endswith("+json")


@lru_cache(maxsize=64)
def without_charset(header: str) -> str:
    """A content type as a handler compares it: what else it says (a form's boundary) stays."""
    return _CHARSET.sub("", header).strip()


def wishes(accept: str) -> list[Wish]:
    """The entries of an `Accept` header, the dearest first, without those of quality 0 (RFC 9110, 12.5.1)."""
    found: list[Wish] = []
    for entry in accept.split(","):
        media, *parameters = [part.strip() for part in entry.split(";")]
        if not media:
            continue
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                quality = _quality(value.strip())
        if quality > 0:
            found.append(Wish(media.lower(), quality, media))
    # Of equal quality, what is said more exactly goes first; sorted() keeps the header's order else.
    return sorted(found, key=lambda wish: (-wish.quality, wish.media.count("*")))


@lru_cache(maxsize=64)
def choose(accept: str, offered: Sequence[str], default: str) -> str:
    """The form of an answer that is made here.

    Args:
        accept: the request's header; empty means anything.
        offered: what can be made, the best first.
        default: what a client without a wish gets, if it is offered.

    Raises:
        RequestError: 406; nothing of what the client takes is offered.
    """
    if not accept.strip():
        return default if default in offered else offered[0]
    ordered = [default, *offered] if default in offered else list(offered)
    refused = {
        bare(entry) for entry in accept.split(",") if re.search(r";\s*q\s*=\s*0(\.0*)?\s*(;|$)", entry)
    }
    for wish in wishes(accept):
        for media in ordered:
            if media not in refused and _matches(wish.media, media):
                return media
    raise RequestError(
        406, f"The model cannot answer as {_shown(accept)}; it answers as {', '.join(offered)}."
    )


def for_handler(accept: str, default: str) -> str:
    """The `accept` that an `output_fn` gets: one media type, as handlers compare it."""
    if not accept or accept == ANY:
        return default
    if "," not in accept and ";" not in accept and "*" not in accept:
        return accept.strip()
    first = next(iter(wishes(accept)), None)
    if first is None or first.media == ANY:
        return default
    if "*" in first.media:
        return default if _matches(first.media, default) else first.text
    return first.text


def unsupported(content_type: str, taken: Sequence[str]) -> RequestError:
    """415 in words."""
    said = _shown(content_type) if content_type else "a body without a content type"
    return RequestError(415, f"The model does not take {said}; it takes {', '.join(taken)}.")


def _matches(wish: str, media: str) -> bool:
    if wish in (ANY, media):
        return True
    kind, _, sub = wish.partition("/")
    return sub == "*" and media.startswith(f"{kind}/")


def _quality(value: str) -> float:
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 1.0


def _shown(header: str) -> str:
    """A header's text as it may stand in an answer."""
    return re.sub(r"[^\x20-\x7e]", "?", header)[:100]
