"""Folders of data that Keras lists: with the files that the script has made, copied or moved before, which are elsewhere."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras.src.legacy.preprocessing import image
from keras.src.utils import dataset_utils

_views: list[Callable[[Any], Any]] = []


def is_folder(place: Any) -> bool:
    """Whether the script finds a folder in a place."""
    return Path(_views[-1](place) if _views else place).is_dir()


def list_folders_with(view_of: Callable[[Any], Any]) -> None:
    """List another folder in place of each that the script names, from now on.

    Args:
        view_of: the folder with what the script believes to be in one.
    """
    _views.append(view_of)
    index: Callable[..., Any] = dataset_utils.index_directory
    create: Callable[..., None] = image.DirectoryIterator.__init__

    @functools.wraps(index)
    def index_directory(directory: Any, *args: Any, **kwargs: Any) -> Any:
        return index(view_of(directory), *args, **kwargs)

    @functools.wraps(create)
    def init(iterator: Any, directory: Any, *args: Any, **kwargs: Any) -> None:
        create(iterator, view_of(directory), *args, **kwargs)

    dataset_utils.index_directory = index_directory
    image.DirectoryIterator.__init__ = init
