"""The events of a run about which people are notified, and the messages about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STALLED = "stalled"
"""No progress for the job's `stall_timeout`."""
UNUSED = "gpu-unused"
"""A GPU that was expected to work did not, or not all did: after the grace of `if_gpu_unused`, or as the verdict says."""
FAILED = "failed"
COST = "cost"
"""The run has cost more than `notify.cost`."""

VERSION = 1


class NotSent(Exception):
    """A message could not be sent; the text says why, without the webhook's address."""


@dataclass(frozen=True)
class Message:
    """A message.

    Args:
        text: one line for people.
        document: the text and everything else as JSON; Slack and compatible services show its `text`.
    """

    subject: str
    text: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Sender:
    """The run that a message is about.

    Args:
        host: `None` if the run has one host.
    """

    run_id: str
    job_name: str
    instance_type: str | None
    host: str | None


def compose(event: str, reason: str, sender: Sender, more: Mapping[str, Any]) -> Message:
    """The message about an event.

    Args:
        reason: a sentence.
        more: further items of the document.
    """
    place = f" on {sender.instance_type}" if sender.instance_type else ""
    host = f", {sender.host}" if sender.host else ""
    words = {UNUSED: "GPU unused", COST: "cost limit passed"}.get(event, event)
    text = f"{sender.job_name} ({sender.run_id}){place}{host}: {words}: {' '.join(reason.split())}"
    document = {
        "text": text,
        "version": VERSION,
        "event": event,
        "run": sender.run_id,
        "job": sender.job_name,
        "host": sender.host,
        "instance_type": sender.instance_type,
        "reason": reason,
        **more,
    }
    return Message(f"gpuproof: {sender.job_name}: {words}", text, document)
