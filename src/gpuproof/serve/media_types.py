"""Media types: parsing of `Content-Type` and `Accept`, and content negotiation. Pure."""

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
"""Types that AWS's toolkits pass to `input_fn` as text (`UTF8_TYPES` in sagemaker_inference/content_types.py)."""

_CHARSET = re.compile(r'\s*;\s*charset\s*=\s*("[^"]*"|[^;]*)', re.IGNORECASE)


@dataclass(frozen=True)
class AcceptEntry:
    """One entry of an `Accept` header."""

    media: str
    quality: float
    text: str


@lru_cache(maxsize=64)
def without_parameters(header: str) -> str:
    """Media type in lower case without parameters: `application/json` for `Application/JSON; charset=utf-8`."""
    return header.partition(";")[0].strip().lower()


@lru_cache(maxsize=64)
def is_json(header: str) -> bool:
    """Whether a content type is JSON. A missing content type counts as JSON."""
    media_type = without_parameters(header) or JSON
    return media_type == JSON or media_type.endswith("+json")


@lru_cache(maxsize=64)
def without_charset(header: str) -> str:
    """A content type as handlers compare it; parameters other than `charset`, such as `boundary`, remain."""
    return _CHARSET.sub("", header).strip()


def parse_accept(accept: str) -> list[AcceptEntry]:
    """Entries of an `Accept` header in order of preference, without those of quality 0 (RFC 9110, 12.5.1)."""
    found: list[AcceptEntry] = []
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
            found.append(AcceptEntry(media.lower(), quality, media))
    # For equal quality, more specific types go first; otherwise sorted() preserves the order of the header.
    return sorted(found, key=lambda entry: (-entry.quality, entry.media.count("*")))


@lru_cache(maxsize=64)
def negotiate(accept: str, offered: Sequence[str], default: str) -> str:
    """Choose the media type of a response.

    Args:
        accept: the request's header; empty means any type.
        offered: the types that can be written, the preferred one first.
        default: the preferred type if it is offered.

    Raises:
        RequestError: 406; the client accepts none of the offered types.
    """
    if not accept.strip():
        return default if default in offered else offered[0]
    ordered = [default, *offered] if default in offered else list(offered)
    excluded = {
        without_parameters(entry)
        for entry in accept.split(",")
        if re.search(r";\s*q\s*=\s*0(\.0*)?\s*(;|$)", entry)
    }
    for entry in parse_accept(accept):
        for media in ordered:
            if media not in excluded and _matches(entry.media, media):
                return media
    raise RequestError(
        406, f"The model cannot respond with {_shown(accept)}; it can respond with {', '.join(offered)}."
    )


def handler_accept(accept: str, default: str) -> str:
    """The `accept` argument of an `output_fn`: a single media type, as handlers compare it."""
    if not accept or accept == ANY:
        return default
    if "," not in accept and ";" not in accept and "*" not in accept:
        return accept.strip()
    first = next(iter(parse_accept(accept)), None)
    if first is None or first.media == ANY:
        return default
    if "*" in first.media:
        return default if _matches(first.media, default) else first.text
    return first.text


def unsupported(content_type: str, accepted: Sequence[str]) -> RequestError:
    """415 for a content type that is not supported."""
    shown = _shown(content_type) if content_type else "a body without a content type"
    return RequestError(415, f"The model does not accept {shown}; it accepts {', '.join(accepted)}.")


def _matches(entry: str, media: str) -> bool:
    if entry in (ANY, media):
        return True
    media_type, _, sub = entry.partition("/")
    return sub == "*" and media.startswith(f"{media_type}/")


def _quality(value: str) -> float:
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 1.0


def _shown(header: str) -> str:
    """A header's text, safe for a response."""
    return re.sub(r"[^\x20-\x7e]", "?", header)[:100]
