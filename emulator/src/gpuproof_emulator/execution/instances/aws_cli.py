"""The AWS CLI of this machine, which every Deep Learning AMI has."""

from __future__ import annotations

import shutil
from pathlib import Path


def find_aws_cli() -> str:
    """Path of the program; empty if it is not installed."""
    found = shutil.which("aws")
    if found and "shims" in Path(found).parts:
        # A shim of pyenv starts a shell script first, and takes ten times as long.
        versions = Path(found).parents[1] / "versions"
        found = next((str(path) for path in sorted(versions.glob("*/bin/aws"))), None)
    return found or ""
