"""The command `ssh` of one host: `python client.py PORT [OPTIONS] [USER@]HOST [OPTIONS] COMMAND …`.

It logs in with the job's key, `~/.ssh/id_ed25519`, and accepts only a server that has the same. OpenSSH's options are accepted and
have no effect, except for `-n`. Source: ssh(1).
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko

_FAILED = 255
_PART = 1 << 16
_WITH_VALUE = "BDEFIJLOQRSWbceilmopw"


@dataclass(frozen=True)
class Request:
    """What a command line asks for.

    Args:
        host: where to.
        command: for the host's shell; empty if there is none.
        reads_input: whether the command gets this program's input.
    """

    host: str
    command: str
    reads_input: bool


def parse(words: Sequence[str]) -> Request | None:
    """Read the arguments of `ssh`; None if they name no host."""
    left = list(words)
    host, reads_input = "", True
    while left:
        word = left.pop(0)
        if word == "--":
            host = host or (left.pop(0) if left else "")
            break
        if word.startswith("-") and len(word) > 1:
            for number, letter in enumerate(word[1:], 2):
                reads_input = reads_input and letter != "n"
                if letter in _WITH_VALUE:
                    if number == len(word) and left:
                        left.pop(0)
                    break
        elif host:
            left.insert(0, word)
            break
        else:
            host = word
    return Request(host.rpartition("@")[2], " ".join(left), reads_input) if host else None


def main() -> int:
    """Run a command on a host; returns its exit code, or 255 as OpenSSH does."""
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    port, *words = sys.argv[1:]
    request = parse(words)
    if request is None or not request.command:
        return _fail("usage: ssh [options] host command (this ssh of GPUproof's emulator has no terminals)")
    try:
        connection = socket.create_connection((request.host, int(port)))
    except OSError as error:
        return _fail(f"ssh: connect to host {request.host} port {port}: {error.strerror or error}")
    key = paramiko.Ed25519Key(filename=str(Path("~/.ssh/id_ed25519").expanduser()))
    try:
        with paramiko.Transport(connection) as transport:
            transport.start_client()
            if transport.get_remote_server_key().asbytes() != key.asbytes():
                return _fail("Host key verification failed.")
            transport.auth_publickey("job", key)  # the server has one user
            channel = transport.open_session()
            channel.exec_command(request.command)
            return _attend(channel, reads_input=request.reads_input)
    except (paramiko.SSHException, OSError, EOFError) as error:
        return _fail(f"ssh: {request.host}: {error}")


def _attend(channel: paramiko.Channel, *, reads_input: bool) -> int:
    """Copy input and outputs until the command has ended; returns its exit code."""
    if reads_input:
        threading.Thread(target=_copy_input, args=(channel,), name="input", daemon=True).start()
    else:
        channel.shutdown_write()
    errors = threading.Thread(target=_copy_errors, args=(channel,), name="errors", daemon=True)
    errors.start()
    while part := channel.recv(_PART):
        _write(1, part)
    errors.join()
    code = channel.recv_exit_status()
    return code if code >= 0 else _FAILED


def _copy_input(channel: paramiko.Channel) -> None:
    try:
        while part := os.read(0, _PART):
            channel.sendall(part)
        channel.shutdown_write()
    except (OSError, EOFError):
        pass  # the command has ended


def _copy_errors(channel: paramiko.Channel) -> None:
    while part := channel.recv_stderr(_PART):
        _write(2, part)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return _FAILED


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Without waiting for the thread that reads the input.
    os._exit(code)
