"""The errors of sagemaker-inference's `errors`, by the same names."""

from __future__ import annotations


class UnsupportedFormatError(Exception):
    """A media type that is not known: 415 from an `input_fn`, 406 from an `output_fn`."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"Content type {content_type} is not supported.")


class BaseInferenceToolkitError(Exception):
    """An answer with a status of the handler's choice."""

    def __init__(self, status_code: int, message: str, phrase: str = "") -> None:
        super().__init__(status_code, message, phrase)
        self.status_code = status_code
        self.message = message
        self.phrase = phrase


class GenericInferenceToolkitError(BaseInferenceToolkitError):
    """The same, with a phrase that may be left out."""

    def __init__(self, status_code: int, message: str = "Invalid Request", phrase: str | None = None) -> None:
        super().__init__(status_code, message, phrase or message)
