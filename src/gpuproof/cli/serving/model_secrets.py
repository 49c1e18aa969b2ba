"""Refuses to pack files of a model that look like secrets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def reject_model_secrets(folder: Path, model: str, include: Sequence[str]) -> None:
    """Refuse to pack files that look like secrets: the archive is uploaded, and read by everyone who may read the model.

    Args:
        folder: the model's folder.
        model: its name, for the message.
        include: patterns of files that may be packed nevertheless.

    Raises:
        GPUproofError: there are such files.
    """
    from gpuproof.jobs.source.secret_files import find_secrets, reject_secrets
    from gpuproof.serve.model.package import LEFT_OUT

    names: list[str] = []
    seen: set[str] = set()
    for current, folders, files in os.walk(folder, followlinks=True):
        # A link may lead to a folder that contains it.
        known = os.path.realpath(current) in seen
        seen.add(os.path.realpath(current))
        folders[:] = [name for name in folders if name not in LEFT_OUT and not known]
        names += [
            Path(current, name).relative_to(folder).as_posix() for name in files if name not in LEFT_OUT
        ]
    secrets = list(find_secrets(folder, sorted(names), list(include)))
    reject_secrets(model, secrets, done="packed", instead="Move {it} elsewhere")
