"""The SSH server of one host: `python server.py HOST PORT ENVIRONMENT`.

OpenSSH's options may follow, and have no effect. It serves only the one address of its host, and only clients with the job's key, `~/.ssh/id_ed25519`, which is its host key, too.
It runs commands; there are no terminals, shells and forwarded ports. The commands run as the server's user.

Sources: RFC 4254 (sessions), sshd(8) (the login shell with `-c`, the home folder), and pam_env(8) for the file with variables.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

_BACKLOG = 128
_PART = 1 << 16
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def main() -> None:
    """Serve until this process is killed."""
    host, port, environment = sys.argv[1:4]
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    key = paramiko.Ed25519Key(filename=str(Path("~/.ssh/id_ed25519").expanduser()))
    try:
        listener = socket.create_server((host, int(port)), backlog=_BACKLOG)
    except OSError as error:
        sys.exit(f"sshd: cannot listen at port {port} of {host}: {error.strerror or error}")
    while True:
        connection, _ = listener.accept()
        threading.Thread(
            target=_serve, args=(connection, key, Path(environment)), name="connection", daemon=True
        ).start()


def read_environment(file: Path) -> dict[str, str]:
    """The variables in a file with a `NAME=value` in each line; other lines are ignored, the last value counts."""
    found: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8", errors="surrogateescape").split("\n"):
        if match := _ASSIGNMENT.fullmatch(line.strip()):
            found[match[1]] = match[2]
    return found


class _Server(paramiko.ServerInterface):
    """Decides what a client may do."""

    def __init__(self, key: paramiko.PKey, environment: Path) -> None:
        self._key = key
        self._environment = environment

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - paramiko's signature
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:  # noqa: ARG002
        return AUTH_SUCCESSFUL if key.asbytes() == self._key.asbytes() else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(
            target=_execute,
            args=(channel, os.fsdecode(command), self._environment),
            name="command",
            daemon=True,
        ).start()
        return True


def _serve(connection: socket.socket, key: paramiko.PKey, environment: Path) -> None:
    transport = paramiko.Transport(connection)
    transport.add_server_key(key)
    try:
        transport.start_server(server=_Server(key, environment))
    except (paramiko.SSHException, OSError, EOFError):
        transport.close()  # the client has left, or is none


def _execute(channel: paramiko.Channel, command: str, environment: Path) -> None:
    """Run one command to its end, and report its exit code."""
    _wait_until_accepted(channel)
    name, shell = _account()
    variables = {"HOME": str(Path.home()), "PATH": os.defpath, "USER": name, "LOGNAME": name}
    process = subprocess.Popen(
        [shell, "-c", command],
        env={**variables, **read_environment(environment)},
        cwd=Path.home(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    threading.Thread(target=_copy_input, args=(channel, process.stdin), name="input", daemon=True).start()
    outputs = [
        threading.Thread(target=_copy_output, args=(file, send), name="output", daemon=True)
        for file, send in ((process.stdout, channel.sendall), (process.stderr, channel.sendall_stderr))
    ]
    for thread in outputs:
        thread.start()
    code = process.wait()
    for thread in outputs:
        thread.join()
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):  # the client has left
        channel.send_exit_status(code if code >= 0 else 128 - code)
        channel.close()


def _wait_until_accepted(channel: paramiko.Channel) -> None:
    """Wait until the connection's thread has answered the request for the command.

    It answers after this command's thread has started. A command that ends before would close its channel first, and the client,
    which still waits for the answer, would lose the exit code. The same thread reads the reply to a global request, so it has
    sent the answer by then. A client that does not know the request's name replies, too (RFC 4254, section 4).
    """
    channel.get_transport().global_request("keepalive@gpuproof", wait=True)


def _account() -> tuple[str, str]:
    """Name and login shell of the user."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return str(os.getuid()), "/bin/sh"
    return entry.pw_name, entry.pw_shell or "/bin/sh"


def _copy_input(channel: paramiko.Channel, target: IO[bytes]) -> None:
    """Copy what the client sends to the command, until one of them ends."""
    with contextlib.suppress(OSError, ValueError):
        while part := channel.recv(_PART):
            target.write(part)
            target.flush()
    with contextlib.suppress(OSError):
        target.close()


def _copy_output(source: IO[bytes], send: Callable[[bytes], object]) -> None:
    """Copy what the command writes to the client; read it to its end if the client has left."""
    with source:
        while part := os.read(source.fileno(), _PART):
            with contextlib.suppress(OSError, EOFError):
                send(part)


if __name__ == "__main__":
    main()
