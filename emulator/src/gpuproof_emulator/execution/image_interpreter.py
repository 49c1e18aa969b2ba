"""Selects the interpreter that replaces the Python of a container image."""

from __future__ import annotations

from collections.abc import Mapping


def select_interpreter(pythons: Mapping[str, str], default: str, image: str) -> str:
    """The interpreter of the framework in the image's name.

    Args:
        pythons: interpreters by framework.
        default: the interpreter for all other images.
    """
    repository = repository_of(image)
    return next((python for framework, python in pythons.items() if framework in repository), default)


def repository_of(image: str) -> str:
    """An image's repository and tag, without registry and digest."""
    return image.partition("/")[2].partition("@")[0] or image
