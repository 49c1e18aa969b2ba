"""The id of a run on AWS: the job's name, the time of its submission and a random suffix."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable
from datetime import UTC, datetime

_NAME_LIMIT = 63
"""SageMaker's limit for the name of a job, in characters."""
_SUFFIX = len("20260501-120000-ab12")
_DAY = 86_400.0
_RUN_ID = re.compile(r"(?P<job>.+)-(?P<stamp>\d{8}-\d{6})-[0-9a-f]{4}")


def new_run_id(job_name: str) -> str:
    """A unique run id: the job's name, the time and a random suffix."""
    return f"{name_in_id(job_name)}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def name_in_id(job_name: str) -> str:
    """A job's name as the ids of its runs contain it: the end of a long name is missing."""
    return job_name[: _NAME_LIMIT - _SUFFIX - 1].rstrip("-")


def job_name_in(run_id: str) -> str:
    """The job's name in a run's id; the whole id if it has another form."""
    found = _RUN_ID.fullmatch(run_id)
    return found["job"] if found else run_id


def is_run_id(name: str) -> bool:
    """Whether a name has the form of a run's id."""
    return _RUN_ID.fullmatch(name) is not None


def stamp_in(run_id: str) -> str:
    """The time in a run's id, for sorting; empty if the id has another form."""
    found = _RUN_ID.fullmatch(run_id)
    return found["stamp"] if found else ""


def created_after(run_ids: Iterable[str]) -> float | None:
    """A time before the first of these runs was created, by their ids; `None` if an id has another form."""
    stamps = [stamp_in(run_id) for run_id in run_ids]
    if not all(stamps):
        return None
    # The time in an id is local time in an unknown time zone.
    return datetime.strptime(min(stamps), "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp() - 2 * _DAY
