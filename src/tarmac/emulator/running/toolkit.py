"""What stands for an image's own `train` where a training job names no ContainerEntrypoint."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tarmac.emulator.running.instances import Instances
from tarmac.emulator.running.objects import DownloadFailed

_NAMED = "tarmac.agent.toolkit"


def train_command(s3: Any, instances: Instances, image: str, state: Path) -> list[str]:
    """The command that does on every host what the image's training toolkit would do.

    Raises:
        DownloadFailed: it cannot be done.
    """
    del s3, instances, state
    if importlib.util.find_spec(_NAMED) is None:
        raise DownloadFailed(
            f"the image {image} cannot be run here, and the job names no ContainerEntrypoint to run instead"
        )
    return ["python3", "-m", _NAMED]
