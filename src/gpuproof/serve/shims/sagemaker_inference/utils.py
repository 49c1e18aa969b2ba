"""Helpers for files and headers, with the names of sagemaker-inference's `utils`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONTENT_TYPE_REGEX = re.compile("^[Cc]ontent-?[Tt]ype")


def read_file(path: Any, mode: str = "r") -> Any:
    """The content of a file."""
    with Path(path).open(mode) as file:
        return file.read()


def write_file(path: Any, data: Any, mode: str = "w") -> None:
    """Write a file."""
    with Path(path).open(mode) as file:
        file.write(data)


def retrieve_content_type_header(request_property: Mapping[str, Any]) -> Any:
    """The value of the `Content-Type` header, in any of its spellings; `None` if there is none."""
    return next((value for name, value in request_property.items() if CONTENT_TYPE_REGEX.match(name)), None)


def parse_accept(accept: str) -> list[str]:
    """The media types in an `Accept` header."""
    return accept.replace(" ", "").split(",")


def remove_crlf(illegal_string: str) -> str:
    """The text with spaces instead of line breaks, which headers must not contain."""
    return illegal_string.replace("\r", " ").replace("\n", " ")
