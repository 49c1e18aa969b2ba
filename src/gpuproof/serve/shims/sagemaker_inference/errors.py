"""The error classes of sagemaker-inference's `errors`."""

from __future__ import annotations


class UnsupportedFormatError(Exception):
    """An unsupported media type: 415 if raised in `input_fn`, 406 in `output_fn`."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"Content type {content_type} is not supported.")


class BaseInferenceToolkitError(Exception):
    """An error response with a status chosen by the handler."""

    def __init__(self, status_code: int, message: str, phrase: str = "") -> None:
        super().__init__(status_code, message, phrase)
        self.status_code = status_code
        self.message = message
        self.phrase = phrase


class GenericInferenceToolkitError(BaseInferenceToolkitError):
    """An error response with an optional phrase."""

    def __init__(self, status_code: int, message: str = "Invalid Request", phrase: str | None = None) -> None:
        super().__init__(status_code, message, phrase or message)
