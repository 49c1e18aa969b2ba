"""How a run ends: its final status and why, and the failure file that tells SageMaker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent import state as states
from gpuproof.agent.failure import LIMIT, StopReason, with_code

if TYPE_CHECKING:
    from gpuproof.agent.ranks.host_failure import Failure


@dataclass
class Outcome:
    """The final status of a run: `Completed` until something else is recorded.

    Args:
        status: as SageMaker names it.
        why: why the run failed or was stopped; `None` if the script's own exit explains it.
        secondary: SageMaker's secondary status, if it differs from the status.
        failed_host: the host that failed first; `None` if that is unknown, or there is only one.
        failed_rank: the rank that failed first; `None` if that is unknown, or there is only one.
        failure_cause: what that failure was due to: a value of `gpuproof.agent.ranks.host_failure.Cause`.
    """

    status: str = states.COMPLETED
    why: str | None = None
    secondary: str | None = None
    code: StopReason | None = None
    failed_host: str | None = None
    failed_rank: int | None = None
    failure_cause: str | None = None

    @property
    def completed(self) -> bool:
        """Whether nothing has gone wrong so far."""
        return self.status == states.COMPLETED

    def record(
        self, status: str, why: str, secondary: str | None = None, code: StopReason | None = None
    ) -> None:
        """Record the final status; the first status other than Completed wins."""
        if self.completed:
            self.status, self.why, self.secondary, self.code = status, why, secondary, code

    def name_first(self, failure: Failure) -> None:
        """Remember where the first failure was, and what it was due to."""
        self.failed_host, self.failed_rank = failure.host, failure.rank
        self.failure_cause = failure.cause.value

    def follow(self, decision: Failure) -> None:
        """Replace it by what all hosts have decided.

        A stop remains what it was: this host may have been asked itself.
        """
        if not (self.status == decision.status == states.STOPPED):
            code = None if decision.code is None else StopReason(decision.code)
            self.status, self.why = decision.status, decision.text
            self.secondary, self.code = decision.secondary, code
        if decision.status == states.FAILED:
            self.name_first(decision)

    def write_failure(self, failure: Path, text: str, *, by_agent: bool) -> None:
        """Write why the run failed to the file that SageMaker reads.

        Args:
            text: what to write without such a message.
            by_agent: whether the text is the agent's own reason for ending the run, which precedes the script's message.

        Raises:
            OSError: the file could not be written.
        """
        failure.parent.mkdir(parents=True, exist_ok=True)
        message = (
            failure.read_text(encoding="utf-8", errors="replace")[:LIMIT].strip() if failure.exists() else ""
        )
        if message and message not in (self.why or ""):
            # The script's own message takes precedence over its traceback: that is what the file is for.
            self.why = f"{self.why}; it left the message: {message}" if self.why else message
        if message and not by_agent:
            return
        text = self.why if message and self.why else text
        if self.code is not None:
            text = with_code(self.code, text)
        failure.write_text(text, encoding="utf-8", errors="surrogateescape")
