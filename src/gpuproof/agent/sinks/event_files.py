"""Finds TensorBoard event files that the script has written."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

OWN_FOLDER = "gpuproof"
"""Event files of the sink are in a folder of this name, next to the script's."""

_MARK = ".tfevents."
_SKIPPED = frozenset({"input", OWN_FOLDER, ".git", "__pycache__", "node_modules"})
_MOST_ENTRIES = 20_000


def find_event_folder(root: Path, since: float) -> Path | None:
    """The folder of the event files that were written since then; what their folders have in common if there are several.

    Args:
        root: searched without following links, up to a limit of entries.
        since: seconds since the epoch.
    """
    found: list[str] = []
    queue: deque[str] = deque([str(root)])
    seen = 0
    while queue and seen < _MOST_ENTRIES:
        folder = queue.popleft()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    queue.append(entry.path)
            elif _MARK in entry.name and _is_new(entry, since) and folder not in found:
                found.append(folder)
    if not found:
        return None
    common = Path(os.path.commonpath(found))
    # Files in unrelated folders, such as the model's and the output's, have nothing in common but the root.
    return Path(found[0]) if common in (root, root / "output") else common


def _is_new(entry: os.DirEntry[str], since: float) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_mtime >= since
    except OSError:
        return False
