"""`ImageFolder` of a folder that is missing: black images take its place, and how many there are is not known."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuproof.trace.pytorch.loader import UNKNOWN_LENGTH
from gpuproof.trace.unknown_classes import UnknownClasses

_IMAGES = 1024
"""In place of a folder: enough for some large batches."""
_SIDE = 256
"""Height and width of images whose own are not known."""
_REMEDY = "Put a folder with a few images of each class where the script looks for it, or name one with --input CHANNEL=FOLDER."


def replace_missing_folders(datasets: Any, note: Callable[[str], None]) -> None:
    """Let `ImageFolder` have black images where its folder is missing, from now on.

    Args:
        datasets: torchvision's module.
        note: takes which folders are.
    """
    original: Callable[..., None] = datasets.ImageFolder.__init__

    def init(
        dataset: Any,
        root: Any,
        transform: Any = None,
        target_transform: Any = None,
        loader: Callable[[str], Any] = datasets.folder.default_loader,
        *rest: Any,
        **others: Any,
    ) -> None:
        if Path(root).is_dir():
            original(dataset, root, transform, target_transform, loader, *rest, **others)
            return
        datasets.VisionDataset.__init__(dataset, root, transform=transform, target_transform=target_transform)
        dataset.loader, dataset.extensions = loader, datasets.folder.IMG_EXTENSIONS
        dataset.classes = dataset.class_to_idx = UnknownClasses(root, _REMEDY)
        dataset.samples = dataset.imgs = [(black_image(), 0)] * _IMAGES
        dataset.targets = [0] * _IMAGES
        setattr(dataset, UNKNOWN_LENGTH, True)
        note(
            f"The folder {root} is not here (--data synthetic): black images of {_SIDE} x {_SIDE} took its place; how many images it has, and "
            "so the steps of an epoch, is not known."
        )

    datasets.ImageFolder.__init__ = init


def black_image(mode: str = "RGB") -> str:
    """Path of a new file with an image of 256 x 256 zeros.

    Args:
        mode: of PIL.
    """
    from PIL import Image  # torchvision needs it, and has been imported

    place = Path(tempfile.mkdtemp(prefix="image-")) / "black.png"
    Image.new(mode, (_SIDE, _SIDE)).save(place)
    return str(place)
