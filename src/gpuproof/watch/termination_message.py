"""The verdict as a container's termination message, which `kubectl describe pod` shows.

Source: Kubernetes documentation, "Determine the Reason for Pod Failure": the kubelet reads the last 4096 bytes of the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.watch.report import WatchReport

MOST = 4096
"""Bytes of a container's message that Kubernetes keeps."""


def write_termination_message(report: WatchReport, file: Path) -> None:
    """Append the verdict to the file; what the program itself has written there stays.

    Raises:
        OSError: the file cannot be written. It is not created: Kubernetes mounts it into each container.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND)
    with open(descriptor, "ab") as stream:  # noqa: PTH123 - a descriptor
        separator = b"\n" if os.fstat(descriptor).st_size else b""
        stream.write(separator + message(report))


def message(report: WatchReport) -> bytes:
    """The verdict in at most `MOST` bytes of UTF-8."""
    verdict = report.verdict
    bottlenecks = verdict.get("bottlenecks") or ()
    sentences = [
        f"gpuproof: {verdict['outcome']}: {verdict['reason']}",
        *([verdict["remedy"]] if verdict.get("remedy") else []),
        *(bottleneck["sentence"] for bottleneck in bottlenecks if bottleneck.get("sentence")),
        *report.notes,
    ]
    text = "\n".join(sentences).encode()
    if len(text) >= MOST:
        text = text[: MOST - 4].decode(errors="ignore").encode() + "…".encode()
    return text
