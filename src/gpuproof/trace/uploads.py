"""Keeps a traced script from sending anything: uploads over HTTP, and programs that upload or delete."""

from __future__ import annotations

import os
import shlex
import socket
import ssl
import subprocess
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from gpuproof.trace.notes import Notes

_SENDING = (b"POST ", b"PUT ", b"PATCH ", b"DELETE ")
"""Beginnings of HTTP/1.1 requests that change something: RFC 9110, section 9.2.1."""
_READING = ("Get", "List", "Describe", "BatchGet", "Query", "Scan", "Search", "Lookup", "Select")
"""Beginnings of the operations of AWS that read, although they are POST requests."""

_SENDERS: dict[Any, tuple[str, ...]] = {
    socket.socket: ("send", "sendall"),
    ssl.SSLSocket: ("send", "sendall"),
    ssl.SSLObject: ("write",),  # asyncio
}

_DELETING = ("rm", "rmdir", "mv", "shred", "truncate")
_COPYING = ("aws", "gsutil", "gcloud", "azcopy", "rclone", "scp", "rsync", "s5cmd")
"""Programs that copy from the first place that they are given to the last one."""
_COPY_COMMANDS = ("s3", "storage", "cp", "copy", "sync", "mv", "move", "rsync")
_API_CALLS = ("put-", "create-", "delete-", "start-", "run-", "upload-")
"""Beginnings of the AWS CLI's commands that change something."""
_OTHERS = {
    "git": ("push",),
    "hf": ("upload", "upload-large-folder", "repo"),
    "huggingface-cli": ("upload", "upload-large-folder", "repo"),
    "wandb": ("sync", "artifact"),
    "dvc": ("push",),
    "docker": ("push",),
}
"""Programs, and the subcommands with which they upload."""


class NothingIsSent(ConnectionError):
    """A request that would change something elsewhere was not sent."""


class Uploads:
    """Prevents uploads of this process and of the programs that it starts.

    Args:
        notes: takes what was not done.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def install(self) -> None:
        """Prevent them from now on; reading stays what it is."""
        for owner, names in _SENDERS.items():
            for name in names:
                setattr(owner, name, self._checked(getattr(owner, name)))
        start: Any = subprocess.Popen.__init__
        system: Callable[[Any], int] = vars(os)["system"]

        def popen(self_: Any, args: Any, *rest: Any, **options: Any) -> None:
            if not self._prevents(_words(args)):
                start(self_, args, *rest, **options)
            else:
                # A program that succeeds and does nothing.
                start(self_, ["true"], *rest, **{**options, "shell": False, "executable": None})

        def shell(command: Any) -> int:
            return 0 if self._prevents(_words(command)) else system(command)

        subprocess.Popen.__init__ = popen  # type: ignore[method-assign,assignment]
        os.__dict__["system"] = shell

    def _checked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def send(self_: Any, data: Any, *args: Any) -> Any:
            start = bytes(memoryview(data).cast("B")[:4096])
            if start.startswith(_SENDING) and not _reads(start):
                request = _described(start)
                self._notes.add("upload", f"{request} was not sent.")
                raise NothingIsSent(f"gpuproof plan sends nothing: {request} was not done")
            return original(self_, data, *args)

        return send

    def _prevents(self, words: Sequence[str]) -> bool:
        if not _changes(words):
            return False
        self._notes.add("upload", f"{shlex.join(words)} was not run.")
        return True


def _reads(start: bytes) -> bool:
    headers = _headers(start)
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    return operation.startswith(_READING) or headers.get("host", "").startswith("sts.")


def _headers(start: bytes) -> dict[str, str]:
    lines = start.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _described(start: bytes) -> str:
    method, _, rest = start.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    host = _headers(start).get("host", "")
    return f"{method} {path if '://' in path else host + path}"


def _words(command: Any) -> list[str]:
    """The words of a command line; of a shell's, those of its first command."""
    if isinstance(command, (str, bytes, os.PathLike)):
        try:
            return shlex.split(os.fsdecode(command))
        except ValueError:
            return []
    return [os.fsdecode(word) for word in command]


def _changes(words: Sequence[str]) -> bool:
    """Whether a program deletes files of this machine, or copies something to another."""
    if not words:
        return False
    program, arguments = PurePath(words[0]).name, list(words[1:])
    if program in _DELETING:
        return True
    if program in _COPYING:
        if "ls" in arguments:
            return False
        if any(word.startswith(_API_CALLS) for word in arguments):
            return True
        remote = [index for index, word in enumerate(arguments) if _is_elsewhere(word)]
        before = arguments[: remote[-1]] if remote else []
        return "rm" in arguments or any(
            not word.startswith("-") and word not in _COPY_COMMANDS for word in before
        )
    return any(word in _OTHERS.get(program, ()) for word in arguments[:3])


def _is_elsewhere(place: str) -> bool:
    head, found, _ = place.partition(":")
    return bool(found) and "/" not in head
