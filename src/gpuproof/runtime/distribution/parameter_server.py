"""Runs a TensorFlow worker or parameter server until the chief is gone."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

_POLL_SECONDS = 1.0
_FAILED_POLLS = 5
_CHIEF_TIMEOUT = 600.0


def serve(tensorflow: Any, config: dict[str, Any]) -> None:
    """Run TensorFlow's server, then exit the process: with 0 once the chief is gone, with 1 if it never started.

    Args:
        config: content of `TF_CONFIG`.
    """
    task, cluster = config["task"], config["cluster"]
    server = tensorflow.distribute.Server(
        cluster, protocol="grpc", job_name=task["type"], task_index=task["index"], start=True
    )
    chief = cluster["chief"][0]
    chief_came = _wait_until_up(chief)
    if chief_came:
        wait_until_gone(chief)
    del server
    # TensorFlow's server cannot be stopped, so exit without its destructors.
    os._exit(0 if chief_came else 1)


def wait_until_gone(address: str) -> None:
    """Wait until a process no longer listens on its port.

    Args:
        address: such as `algo-1:2222`.
    """
    silent = 0
    while silent < _FAILED_POLLS:
        time.sleep(_POLL_SECONDS)
        silent = 0 if _accepts_connections(address) else silent + 1


def _wait_until_up(address: str) -> bool:
    deadline = time.monotonic() + _CHIEF_TIMEOUT
    while not _accepts_connections(address):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_POLL_SECONDS):
            return True
    except OSError:
        return False
