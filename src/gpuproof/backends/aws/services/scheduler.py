"""Requests to EventBridge Scheduler."""

from __future__ import annotations

from typing import Any

from gpuproof.backends.aws.errors import AwsRefused
from gpuproof.backends.aws.session import AwsSession


class SchedulerCalls(AwsSession):
    """The client's methods for schedules."""

    def schedule(self, name: str, group: str | None = None) -> dict[str, Any] | None:
        """The description of a schedule; None if it does not exist, or no longer.

        Args:
            group: its group; the default one if None.
        """
        request = {"Name": name} if group is None else {"Name": name, "GroupName": group}
        try:
            return self._request("scheduler", "get_schedule", request, f"schedule {name}")
        except AwsRefused as refused:
            if refused.code == "ResourceNotFoundException":
                return None
            raise
