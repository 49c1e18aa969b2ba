"""Client of the monitor process, which samples GPUs for other processes (`gpuproof.watch.monitor_process`).

All processes of a host that use the same key share one monitor process: the first one starts it, and it ends with the last connection.
They talk over an abstract Unix socket, which leaves no file behind, in JSON, one object per line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PACKAGES = str(Path(__file__).parents[2])
"""The folder or the zip file that contains the package; an entry of `sys.path`."""
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from gpuproof.watch.main import main; sys.exit(main())"
)
_ANSWER_S = 180.0
"""The last verdict may wait for the driver, and for S3."""
_MEETING_S, _RETRY_S = 10.0, 0.02
"""For another process that starts the monitor process, or for one that ends."""
_PEER = struct.Struct("3i")
"""Process, user and group at the other end of a socket: SO_PEERCRED of unix(7)."""
_BACKLOG = 1024
"""Ranks of a host that may connect at the same time."""


class MonitorLost(Exception):
    """The monitor process could not be started, or has ended."""


class MonitorClient:
    """A connection to the monitor process.

    Args:
        key: what the processes of a job on this host share, such as `slurm-17.0`; `None` for a monitor process of its own.

    Raises:
        MonitorLost: the process could not be started.
    """

    def __init__(self, key: str | None = None) -> None:
        self._socket = _connect(_address(key or f"{os.getpid()}-{secrets.token_hex(8)}"))
        self._lines = self._socket.makefile("rb")

    def register(
        self, settings: Mapping[str, Any], environment: Mapping[str, str], **facts: Any
    ) -> dict[str, Any]:
        """Count this process and its descendants as the job's; the first process of a job starts the sampling.

        Args:
            settings: `gpuproof.watch.settings.WatchSettings.to_json()`.
            environment: variables that decide which GPUs are expected.
            facts: fields of the report, such as `command`.
        """
        return self.request(
            {
                "do": "register",
                "pid": os.getpid(),
                "settings": dict(settings),
                "environment": dict(environment),
                "facts": facts,
            }
        )

    def finish(self, code: int | None = None) -> dict[str, Any]:
        """Report the end of this process's work.

        Args:
            code: its exit code, if it is known.

        Returns:
            `last` is true for the last process of the job on this host; only then is there a `report`.
        """
        return self.request({"do": "finish", "exit_code": code})

    def begin(
        self, label: str, settings: Mapping[str, Any], environment: Mapping[str, str]
    ) -> dict[str, Any]:
        """Start to sample this process and its descendants for a part of its work, such as a notebook's cell."""
        return self.request(
            {
                "do": "begin",
                "label": label,
                "pid": os.getpid(),
                "settings": dict(settings),
                "environment": dict(environment),
            }
        )

    def end(self, label: str) -> dict[str, Any]:
        """End a part; the answer has its `report`."""
        return self.request({"do": "end", "label": label})

    def drop(self, label: str) -> None:
        """End a part without a report."""
        self.request({"do": "drop", "label": label})

    def report_if_killed(self, descriptor: int) -> None:
        """Let the monitor process print the report if this process is killed before it calls `finish`.

        Args:
            descriptor: of the file for the text; the monitor process has it open until this process has ended.
        """
        self.request({"do": "output"}, [descriptor])

    def gpus(self) -> dict[str, Any]:
        """What this machine's GPUs do now; the answer has it as `machine` (`gpuproof.watch.running.gpu_state.GpuMachine`)."""
        return self.request({"do": "gpus"})

    def request(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send a request and return the answer.

        Args:
            descriptors: of files that the request hands over.

        Raises:
            MonitorLost: the monitor process has ended.
        """
        try:
            packed = json.dumps(message).encode() + b"\n"
            if descriptors:
                packed = packed[socket.send_fds(self._socket, [packed], list(descriptors)) :]
            self._socket.sendall(packed)
            answer = self._lines.readline()
        except socket.timeout as error:  # Python 3.9 has no other name for it
            raise MonitorLost(f"the monitor process has not answered within {_ANSWER_S:g} s") from error
        except OSError as error:
            raise MonitorLost(f"the monitor process has ended: {error.strerror}") from error
        if not answer:
            raise MonitorLost("the monitor process has ended")
        return json.loads(answer)

    def close(self) -> None:
        """Close the connection; a process that has not called `finish` counts as ended."""
        self._lines.close()
        self._socket.close()


def is_own(connection: socket.socket) -> bool:
    """Whether a process of this user is at the other end of a Unix socket."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return _PEER.unpack(peer)[1] == os.getuid()


def _address(key: str) -> str:
    """The name of the socket: by user and PID namespace, so that containers in one network do not meet."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    # Names of jobs and hosts may be longer than an address, which has 108 bytes.
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"\0gpuproof-watch-{os.getuid()}-{namespace}-{digest}"


def _connect(address: str) -> socket.socket:
    until = time.monotonic() + _MEETING_S
    while True:
        _start_if_none(address)
        try:
            return _connection(address)
        except ConnectionRefusedError as error:
            # The process that has the name does not listen yet, or listens no more: its last connection was closed.
            if time.monotonic() > until:
                raise MonitorLost(f"the monitor process cannot be reached: {error}") from error
            time.sleep(_RETRY_S)
        except OSError as error:
            raise MonitorLost(f"the monitor process cannot be reached: {error}") from error


def _start_if_none(address: str) -> None:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with listening:
            listening.bind(address)
            listening.listen(_BACKLOG)
            _start(listening)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise MonitorLost(f"the monitor process could not be started: {error}") from error


def _connection(address: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_ANSWER_S)
    try:
        connection.connect(address)
        # Any user may take any name, and the requests contain variables of this one.
        if not is_own(connection):
            raise PermissionError(errno.EPERM, "it belongs to another user")
    except OSError:
        connection.close()
        raise
    return connection


def _start(listening: socket.socket) -> None:
    """Start the process, which detaches itself: it is no child of this one, and not in its process group."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    # The script's GPUs are all to be read, and no hook of the script's own interpreter runs in it.
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    started = subprocess.run(
        [sys.executable, "-c", _START, _PACKAGES, "monitor", str(listening.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # A pipe of the caller's would stay open after its end, and a launcher waits for that.
        stderr=subprocess.DEVNULL,
        pass_fds=[listening.fileno()],
        env=environment,
        check=False,
    )
    if started.returncode != 0:
        raise OSError(errno.ECHILD, "the monitor process did not start")
