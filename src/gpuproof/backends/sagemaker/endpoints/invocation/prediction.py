"""The response of a model."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuproof.serve.media_types import is_json, without_parameters

_TEXTS = ("application/json", "application/jsonlines", "application/x-ndjson", "application/xml")


@dataclass(frozen=True)
class InvocationOptions:
    """How a model is invoked.

    Args:
        accept: media type of the response; the model's default if None.
        target_model: name of a model of a multi-model endpoint; empty for one model.
        target_variant: name of a production variant; empty to let the weights decide.
        stream: whether the response is read piece by piece.
        timeout: seconds to wait for a response; the default of the kind of invocation if None.
    """

    accept: str | None = None
    target_model: str = ""
    target_variant: str = ""
    stream: bool = False
    timeout: float | None = None


@dataclass(frozen=True)
class Prediction:
    """One response.

    Args:
        pieces: its body, in the order of arrival; to be read once.
        variant: the production variant that answered; empty if there is none.
        location: address in S3 of an asynchronous response; empty for others.
    """

    content_type: str
    pieces: Iterator[bytes]
    variant: str = ""
    location: str = ""

    @property
    def is_text(self) -> bool:
        """Whether people can read its body."""
        media = without_parameters(self.content_type)
        return media.startswith("text/") or media in _TEXTS or media.endswith("+json")


def body_members(content: bytes, content_type: str) -> dict[str, Any]:
    """A body as members of a JSON object: `json`, `text`, or `base64` for what is neither."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
    if content_type and is_json(content_type):
        try:
            return {"json": json.loads(text)}
        except ValueError:
            return {"text": text}
    return {"text": text}
