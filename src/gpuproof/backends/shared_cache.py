"""Files in the user's cache that processes share: a file is deleted after a day without use.

The time of the last access is set by these functions, since file systems may not keep it. The time of the last modification
stays as it is, because uploads notice by it that a file has changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

UNUSED_SECONDS = 86_400.0
"""How long a file is kept that no process uses: much longer than a submission takes from its plan to its uploads."""


def mark_used(path: Path) -> bool:
    """Note that a file is in use; returns whether there is one.

    From then on, `remove_unused` of another process keeps it.
    """
    try:
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    except FileNotFoundError:
        return False
    except OSError:
        return path.exists()  # another user's, or on a file system that cannot be written
    return True


def remove_unused(paths: Iterable[Path], seconds: float = UNUSED_SECONDS) -> None:
    """Remove files, and folders with their content, that were not used for some time."""
    now = time.time()
    for path in paths:
        with contextlib.suppress(OSError):  # removed by another process in the meantime, or another user's
            status = path.lstat()
            if now - max(status.st_atime, status.st_mtime) <= seconds:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
