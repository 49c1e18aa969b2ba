"""Folders of images that are not on this machine: some black images take their place, and how many there are is not known."""

# pyright: reportPrivateUsage=false, reportAttributeAccessIssue=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from keras.src.legacy.preprocessing import image
from keras.src.utils import image_dataset_utils

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.notes import is_users
from gpuproof.trace.tensorflow.folders import is_folder
from gpuproof.trace.unknown_classes import UnknownClasses, missing_folder

_IMAGES = 1024
"""In place of a folder: enough for some large batches."""
_TWO = ("class0", "class1")
_REMEDY = (
    "Put a folder with a few images of each class where the script looks for it. If the script only needs the classes, name them in it: "
    "class_names= of image_dataset_from_directory, classes= of flow_from_directory."
)
_COUNTS = ("samples", "n")
_CLASSES = ("num_classes", "class_indices", "classes")


def replace_missing_folders(note: Callable[[str], None]) -> None:
    """Let Keras read black images where a folder is missing, from now on.

    Args:
        note: takes which folders are.
    """
    _replace_datasets(note)
    _replace_iterators(note)


def _replace_datasets(note: Callable[[str], None]) -> None:
    load: Callable[..., Any] = image_dataset_utils.image_dataset_from_directory
    signature = inspect.signature(load)

    @functools.wraps(load)
    def image_dataset_from_directory(directory: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(directory, *args, **kwargs)
        given.apply_defaults()
        options = given.arguments
        if is_folder(directory):
            return load(directory, *args, **kwargs)
        labels, mode, names = (options[name] for name in ("labels", "label_mode", "class_names"))
        if isinstance(labels, (list, tuple)):
            raise _unknown(directory, "for which images the script has labels")
        labelled = labels is not None and mode is not None
        classes = _classes(directory, names, mode) if labelled else ()
        note(_text(directory, classes))
        placeholders = (classes or _TWO) if labelled else ("",)
        options.update(directory=_folder(placeholders), verbose=False)
        found = load(*given.args, **given.kwargs)
        several = isinstance(found, (list, tuple))
        made = [_of_unknown_length(dataset) for dataset in (found if several else [found])]
        for dataset in made:
            dataset.class_names = (list(classes) or UnknownClasses(directory, _REMEDY)) if labelled else None
            dataset.file_paths = []
        return made if several else made[0]

    for module in list(sys.modules.values()):
        if vars(module).get("image_dataset_from_directory") is load:
            module.image_dataset_from_directory = image_dataset_from_directory


def _replace_iterators(note: Callable[[str], None]) -> None:
    create: Callable[..., None] = image.DirectoryIterator.__init__
    signature = inspect.signature(create)

    def init(iterator: Any, directory: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(iterator, directory, *args, **kwargs)
        given.apply_defaults()
        options = given.arguments
        if is_folder(directory):
            create(iterator, directory, *args, **kwargs)
            return
        mode = options["class_mode"]
        labelled = mode not in (None, "input")
        classes = _classes(directory, options["classes"], mode) if labelled else ()
        note(_text(directory, classes))
        placeholders = classes or _TWO
        options.update(directory=_folder(placeholders), classes=list(placeholders))
        create(*given.args, **given.kwargs)
        hidden = _COUNTS if classes else (*_COUNTS, *_CLASSES)
        iterator.__class__ = _with_hidden(type(iterator), hidden, directory)

    image.DirectoryIterator.__init__ = init


def _classes(folder: Any, names: Sequence[str] | None, mode: str | None) -> tuple[str, ...]:
    """Names of the classes; none if they are not known, and need not be.

    Raises:
        CannotTrace: the shape of the labels depends on how many there are.
    """
    if names:
        return tuple(names)
    if mode == "categorical":
        raise _unknown(folder, "how many classes it has, which the shape of the labels depends on")
    return _TWO if mode == "binary" else ()


def _folder(classes: Sequence[str]) -> str:
    """A new folder of black images of one pixel."""
    folder = Path(tempfile.mkdtemp(prefix="images-"))
    first = folder / "black.png"
    first.write_bytes(tf.io.encode_png(tf.zeros([1, 1, 3], tf.uint8)).numpy())
    for number in range(_IMAGES):
        place = folder / classes[number % len(classes)]
        place.mkdir(exist_ok=True)
        os.link(first, place / f"{number}.png")
    first.unlink()
    return str(folder)


def _of_unknown_length(dataset: Any) -> Any:
    return dataset.filter(lambda *_: True)


def _with_hidden(kind: type[Any], names: Sequence[str], folder: Any) -> type[Any]:
    """A class of iterators whose script is not told what is not known."""

    def hidden(name: str) -> property:
        def read(iterator: Any) -> Any:
            if is_users(sys._getframe(1).f_code.co_filename):
                raise _unknown(folder, "how many images or classes it has")
            return vars(iterator)[name]

        return property(read, lambda iterator, value: vars(iterator).update({name: value}))

    members: dict[str, Any] = {name: hidden(name) for name in names}
    members["num_batches"] = property(lambda _: None)
    return type(kind.__name__, (kind,), members)


def _unknown(folder: Any, what: str) -> CannotTrace:
    return missing_folder(folder, what, _REMEDY)


def _text(folder: Any, classes: Sequence[str]) -> str:
    known = f"{len(classes)} classes" if classes else "classes that are not known"
    return (
        f"The folder {folder} is not here (--data synthetic): black images of {known} took its place; how many images it has, and so the "
        "steps of an epoch, is not known."
    )
