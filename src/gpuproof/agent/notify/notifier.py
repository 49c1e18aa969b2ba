"""Sends each event of a run once, without delaying it: in threads, for which the end of the run waits a few seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

from gpuproof.agent.failure import StopReason
from gpuproof.agent.job import AgentJob, NotifySettings
from gpuproof.agent.notify.events import FAILED, STALLED, UNUSED, Message, NotSent, Sender, compose
from gpuproof.agent.state import FAILED as FAILED_STATUS
from gpuproof.agent.state import STOPPED
from gpuproof.agent.verdict.schema import CPU_ONLY, IDLE, OCCUPIED, PARTLY_USED

END_S = 15.0
"""How long the end of a run waits for messages that are on their way; `HURRIED_END_S` if it was stopped."""
HURRIED_END_S = 3.0

_UNUSED_OUTCOMES = (CPU_ONLY, IDLE, OCCUPIED, PARTLY_USED)


Send = Callable[[Message], None]
"""Sends a message; raises NotSent."""


class Notifier:
    """The notifications of one host.

    Args:
        ways: how messages are sent, by the name that a note has for it.
        sends_all: whether this host also sends what concerns all hosts; the first one does.
    """

    def __init__(self, sender: Sender, ways: Mapping[str, Send], *, sends_all: bool = True) -> None:
        self._sender = sender
        self._ways = ways
        self._sends_all = sends_all
        self._sent: set[str] = set()
        self._threads: dict[threading.Thread, str] = {}
        self._notes: list[str] = []

    @classmethod
    def of(cls, job: AgentJob, settings: NotifySettings) -> Notifier:
        """The notifications that a job asks for."""
        several = len(job.hosts) > 1
        sender = Sender(job.run_id, job.job_name, job.instance_type, job.current_host if several else None)
        return cls(sender, _ways(job, settings), sends_all=job.current_host == job.hosts[0])

    def has_sent(self, event: str) -> bool:
        """Whether a message about this event has been sent, or is being sent."""
        return event in self._sent

    def send(self, event: str, reason: str, **more: Any) -> None:
        """Start to send a message; only the first of each event is sent.

        Args:
            more: further items of its document.
        """
        if event in self._sent or not (self._sends_all or event == UNUSED):
            return
        self._sent.add(event)
        message = compose(event, reason, self._sender, {"time": round(time.time(), 3), **more})
        for name, send in self._ways.items():
            thread = threading.Thread(target=self._try, args=(name, send, message), daemon=True)
            self._threads[thread] = name
            thread.start()

    def send_verdict(self, outcome: str, reason: str) -> None:
        """Send a message if the verdict is that GPUs were not used, or not all."""
        if outcome in _UNUSED_OUTCOMES:
            self.send(UNUSED, reason, outcome=outcome)

    def end(self, status: str, why: str | None, code: StopReason | None) -> list[str]:
        """Send a message if the run has failed, unless one says so already; then as `close`.

        Args:
            status: of the run, as SageMaker names it.
            code: why the agent itself ended it.
        """
        if status == FAILED_STATUS and code is None and not self.has_sent(STALLED):
            self.send(FAILED, why or "the run failed")
        return self.close(HURRIED_END_S if status == STOPPED else END_S)

    def close(self, limit_s: float = END_S) -> list[str]:
        """Wait for the messages that are on their way; returns a note for each that was not sent."""
        deadline = time.monotonic() + limit_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        late = [name for thread, name in self._threads.items() if thread.is_alive()]
        self._threads = {}
        return [
            *self._notes,
            *(f"notification by {name}: it was not sent within {limit_s:g} s" for name in late),
        ]

    def _try(self, name: str, send: Send, message: Message) -> None:
        try:
            send(message)
        except NotSent as error:
            self._notes.append(f"notification by {name}: {error}")
        except Exception as error:  # noqa: BLE001 - its text might contain the webhook's address
            self._notes.append(f"notification by {name}: {type(error).__name__}")


def _ways(job: AgentJob, settings: NotifySettings) -> dict[str, Send]:
    ways: dict[str, Send] = {}
    topic, variable = settings.topic, settings.webhook_variable
    if topic is not None:

        def publish(message: Message) -> None:
            from gpuproof.agent.notify.sns import publish  # imports HTTP, which most jobs do without

            publish(topic, message, os.environ)

        ways["SNS"] = publish
    if variable is not None:

        def post(message: Message) -> None:
            from gpuproof.agent.notify.webhook import post  # as above

            post(os.environ.get(variable) or job.environment.get(variable), variable, message)

        ways["webhook"] = post
    return ways
