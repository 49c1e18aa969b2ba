"""Waits until an endpoint is in service, and finds out why it is not: its failure reason and the container's log."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed, EndpointGone
from gpuproof.backends.sagemaker.endpoints.requests import VARIANT
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError
from gpuproof.explain.context import Context
from gpuproof.explain.sources import explain_job

IN_PROGRESS = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
LONGEST_WAIT = 3 * 3600.0
"""Seconds after which waiting ends: downloads and health checks take up to an hour each."""

_SHOWN_LINES = 30
_CAPACITY = re.compile(r"capacity", re.IGNORECASE)


class EndpointWait:
    """Waits for an endpoint.

    Args:
        progress: told about each change of its status.
        sleep: waits for a number of seconds.
        clock: the time in seconds since the epoch.
    """

    def __init__(
        self,
        aws: Aws,
        name: str,
        instance_type: str | None,
        progress: SubmitProgress,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._aws = aws
        self._name = name
        self._instance_type = instance_type
        self._progress = progress
        self._sleep = sleep
        self._began = clock()

    def until_in_service(self, config: str) -> None:
        """Wait until the endpoint serves with a configuration.

        Raises:
            EndpointGone: it was deleted meanwhile.
            DeploymentFailed: it failed; after an update, SageMaker keeps the old configuration in service.
        """
        found = self.settled()
        if found is None:
            raise EndpointGone(
                f"The endpoint {self._name} was deleted by another user or command while GPUproof waited for it.",
                remedy="The audit log has who did it: CloudTrail, DeleteEndpoint.",
            )
        if found["EndpointStatus"] == "InService" and found["EndpointConfigName"] == config:
            return
        raise self._failure(found)

    def settled(self) -> dict[str, Any] | None:
        """Wait until SageMaker has ended what it does with the endpoint; its description, None if it does not exist."""
        shown, status = "", ""
        for pause in poll_pauses(LONGEST_WAIT):
            found = self._aws.describe_endpoint(self._name)
            if found is None:
                return None
            status = found["EndpointStatus"]
            if status not in IN_PROGRESS:
                return found
            if status != shown:
                self._progress.step(f"wait for the endpoint {self._name}: {status}")
                shown = status
            self._sleep(pause)
        raise DeploymentFailed(
            f"The endpoint {self._name} is still {status} after {LONGEST_WAIT / 3600:.0f} hours.",
            remedy=f"aws sagemaker describe-endpoint --endpoint-name {self._name}",
        )

    def failed(
        self, message: str, kind: type[DeploymentFailed], remedy: str | None = None
    ) -> DeploymentFailed:
        """An error with the end of the container's log, and explanations of the errors in it."""
        lines = self._log_lines()
        context = Context(
            catalogue=Catalogue.load(),
            region=self._aws.region,
            region_is_explicit=True,
            job_kind="endpoint",
            failed=True,
        )
        if self._instance_type is not None:
            context = context.on_instance(self._instance_type)
        report = explain_job({"container": lines}, message, context)
        return kind(
            message,
            remedy,
            log=lines[-_SHOWN_LINES:],
            explanations=report.explanations,
            lacks_capacity=_CAPACITY.search(message) is not None,
        )

    def _failure(self, found: dict[str, Any]) -> DeploymentFailed:
        status = found["EndpointStatus"]
        reason = found.get("FailureReason") or "SageMaker gives no reason"
        kept = f"; {found['EndpointConfigName']} stays in service" if status == "InService" else ""
        return self.failed(
            f"The endpoint {self._name} did not come into service ({status}{kept}): {reason}",
            DeploymentFailed,
        )

    def _log_lines(self) -> list[str]:
        """The end of the log of every container that was started since; empty if it cannot be read."""
        group = f"/aws/sagemaker/Endpoints/{self._name}"
        lines: list[str] = []
        try:
            for stream in self._aws.log_streams(group, f"{VARIANT}/"):
                if stream.created is not None and stream.created < self._began - 60:
                    continue
                events, _ = self._aws.last_log_events(group, stream.name)
                lines += [event.message for event in events]
        except GPUproofError:
            return lines
        return lines
