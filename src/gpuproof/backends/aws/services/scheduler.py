"""Requests to EventBridge Scheduler."""

from __future__ import annotations

from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession


class SchedulerCalls(AwsSession):
    """The client's methods for schedules of the default group."""

    def schedule(self, name: str) -> dict[str, Any] | None:
        """The description of a schedule; None if it does not exist, or no longer."""
        try:
            return self._request("scheduler", "get_schedule", {"Name": name}, f"schedule {name}")
        except AwsRefused as refused:
            if refused.code == "ResourceNotFoundException":
                return None
            raise
