"""A worker's or parameter server's whole life: serve until the chief has gone."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

_LOOK_EVERY = 1.0
_GONE_AFTER = 5
_PATIENCE = 600.0


def serve(tensorflow: Any, config: dict[str, Any]) -> None:
    """Serve TensorFlow's protocol and leave the process with 0 once the chief has gone, with 1 if it never came.

    Args:
        config: what `TF_CONFIG` says.
    """
    task, cluster = config["task"], config["cluster"]
    server = tensorflow.distribute.Server(
        cluster, protocol="grpc", job_name=task["type"], task_index=task["index"], start=True
    )
    chief = cluster["chief"][0]
    came = _wait_for(chief)
    if came:
        _wait_until_gone(chief)
    del server
    # TensorFlow's server has no way to stop: leaving without its destructors is how it is done.
    os._exit(0 if came else 1)


def _wait_for(address: str) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while not _answers(address):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_EVERY)
    return True


def _wait_until_gone(address: str) -> None:
    silent = 0
    while silent < _GONE_AFTER:
        time.sleep(_LOOK_EVERY)
        silent = 0 if _answers(address) else silent + 1


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_LOOK_EVERY):
            return True
    except OSError:
        return False
