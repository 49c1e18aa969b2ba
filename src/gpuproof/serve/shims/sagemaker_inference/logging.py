"""The logger of sagemaker-inference."""

from __future__ import annotations

import logging


def get_logger() -> logging.Logger:
    """The logger `sagemaker-inference`."""
    return logging.getLogger("sagemaker-inference")


def configure_logger() -> None:
    """Do nothing: the server configures logging before the handler is imported."""
