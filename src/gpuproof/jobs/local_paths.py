"""Makes the local paths of a job absolute."""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.jobs import validators


def resolve_path(place: str, folder: Path) -> str:
    """Returns a local path relative to `folder` as absolute, with `~` and `..` resolved; an S3 address unchanged."""
    if validators.is_s3(place):
        return place
    return os.path.normpath(folder / os.path.expanduser(place))  # noqa: PTH111 - leaves ~nobody as it is
