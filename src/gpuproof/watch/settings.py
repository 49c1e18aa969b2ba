"""What the user asked of a watched program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

STOP, WARN = "stop", "warn"
IF_UNUSED = (STOP, WARN)
"""What to do if no GPU did any work: end the program, or print a line."""
DEFAULT_GRACE_S = 300.0


@dataclass(frozen=True)
class WatchSettings:
    """What is expected of a program, and when it is ended.

    Args:
        gpus: how many GPUs must work; `None` counts those that the program can see.
        require_gpu: whether exit code 4 follows if they did no work.
        if_unused: a value of `IF_UNUSED`; `None` does nothing while the program runs.
        grace: seconds after the start before `if_unused` applies.
        stall_timeout: seconds without output or work on a GPU after which the program is ended; `None` is never.
        hosts: number of hosts of the job.
        group: name of the job that several processes or hosts share; `None` for a program of its own.
        to: folder or `s3://` location for the reports of a group; `None` keeps them on their hosts.
    """

    gpus: int | None = None
    require_gpu: bool = True
    if_unused: str | None = None
    grace: float = DEFAULT_GRACE_S
    stall_timeout: float | None = None
    hosts: int = 1
    group: str | None = None
    to: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The settings as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WatchSettings:
        """The settings in a JSON object; unknown keys are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in document.items() if key in known})
