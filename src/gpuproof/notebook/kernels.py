"""Which notebook a process belongs to: its kernel has the id in its command line, and the Jupyter server knows the notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.agent.idle.jupyter_activity import JupyterServer, server_at
from gpuproof.watch.report import read_environment
from gpuproof.watch.running.process_facts import ProcessFacts, read_facts

_CONNECTION_FILE = re.compile(r"kernel-(?P<id>[^/\\]+)\.json$")
"""The connection file, an argument of every kernel (https://jupyter-client.readthedocs.io/en/stable/kernels.html)."""
_SERVER_FILES = ("jpserver-*.json", "nbserver-*.json")
"""What Jupyter servers write into the runtime folder: address, token and process id."""
_SESSION_NAME = "JPY_SESSION_NAME"
"""The notebook's path, with which a Jupyter server starts its kernel."""
_TIMEOUT_S = 3.0
_MOST_PARENTS = 64


@dataclass(frozen=True)
class Kernel:
    """A kernel.

    Args:
        id: of its connection file; `None` if the file has a name of its own, as of consoles.
        pid: of the kernel itself.
        notebook: path of its notebook as the Jupyter server names it; `None` if unknown.
    """

    id: str | None
    pid: int
    notebook: str | None = None


def find_kernels(pids: Iterable[int], own_pid: int, runtime_folders: Sequence[Path]) -> dict[int, Kernel]:
    """The kernels of the processes that are one, or that one has started; the others are left out.

    Args:
        own_pid: of the kernel that asks.
        runtime_folders: where Jupyter servers leave their addresses.
    """
    found = {pid: kernel for pid in pids if (kernel := _kernel_above(pid, own_pid)) is not None}
    if not found:
        return {}
    notebooks = _notebooks(runtime_folders)
    return {
        pid: Kernel(
            kernel.id,
            kernel.pid,
            notebooks.get(kernel.id or "") or read_environment(kernel.pid).get(_SESSION_NAME),
        )
        for pid, kernel in found.items()
    }


def runtime_folders(connection_file: str | None, environment: Mapping[str, str]) -> list[Path]:
    """Where Jupyter servers of this user leave their addresses.

    Args:
        connection_file: of this kernel.
    """
    folders = [Path(connection_file).parent] if connection_file else []
    if named := environment.get("JUPYTER_RUNTIME_DIR"):
        folders.append(Path(named))
    data = environment.get("JUPYTER_DATA_DIR") or f"{environment.get('HOME') or '~'}/.local/share/jupyter"
    folders.append(Path(data).expanduser() / "runtime")
    return list(dict.fromkeys(folders))


def connection_file(arguments: Sequence[str]) -> str | None:
    """The connection file in the command line of a kernel; `None` for another process."""
    return next((word.rpartition("=")[2] for word in arguments if _CONNECTION_FILE.search(word)), None)


def _kernel_above(pid: int, own_pid: int) -> Kernel | None:
    for process in _with_parents(pid):
        file = connection_file(process.command)
        if file is not None and (match := _CONNECTION_FILE.search(file)) is not None:
            return Kernel(match["id"], process.pid)
        if process.pid == own_pid:
            return Kernel(None, process.pid)
    return None


def _with_parents(pid: int) -> Iterator[ProcessFacts]:
    for _ in range(_MOST_PARENTS):
        facts = read_facts(pid) if pid > 1 else None
        if facts is None:
            return
        yield facts
        pid = facts.parent


def _notebooks(folders: Sequence[Path]) -> dict[str, str]:
    """Paths of notebooks by the ids of their kernels, of all servers that answer."""
    return {
        str(session["kernel"]["id"]): str(session["path"])
        for server in _servers(folders)
        for session in server.sessions()
        if isinstance(session, dict) and session.get("path") and (session.get("kernel") or {}).get("id")
    }


def _servers(folders: Sequence[Path]) -> Iterator[JupyterServer]:
    for folder in folders:
        for file in sorted(path for pattern in _SERVER_FILES for path in folder.glob(pattern)):
            try:
                described = json.loads(file.read_text())
                server = server_at(str(described["url"]), str(described.get("token") or ""))
            except (OSError, ValueError, KeyError):
                continue
            # A server that was killed leaves its file behind.
            if Path(f"/proc/{described.get('pid')}").exists():
                yield JupyterServer(server.url, server.token, _TIMEOUT_S)
