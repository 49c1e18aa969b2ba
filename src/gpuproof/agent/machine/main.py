"""`python3 gpuproof-agent.pyz --machine OPTIONS`: keep a machine until it is idle, with or without a Jupyter server."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpuproof.agent.idle.watch import IdleWatch
from gpuproof.agent.machine.files import VERSION, MachineFiles
from gpuproof.agent.machine.jupyter_process import JupyterMissing, JupyterProcess
from gpuproof.util.atomic import write_json

MACHINE = "--machine"
"""The option of the agent's file."""

_STEP_S = 0.2
_START_LIMIT_S = 600.0
_PORTS = 5
"""How many ports are tried if other programs take them while Jupyter starts."""
_SHUT_DOWN = "Jupyter was shut down"


class _Stop(Exception):
    """SIGTERM."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the machine's program; returns 0 if it has ended because the machine was idle or Jupyter was shut down."""
    parser = argparse.ArgumentParser(prog="gpuproof-agent --machine", allow_abbrev=False)
    parser.add_argument(MACHINE, action="store_true")
    parser.add_argument("--ml", type=Path, required=True, help="/opt/ml, or the folder that replaces it")
    parser.add_argument("--work", type=Path, required=True, help="the work folder")
    parser.add_argument("--source", type=Path, help="copied into the work folder")
    parser.add_argument("--packages", type=Path, help="packages that were installed for this run")
    parser.add_argument("--idle-timeout", type=float, required=True, help="seconds")
    parser.add_argument("--jupyter", action="store_true")
    arguments = parser.parse_args(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _raise_stop)
    jupyter: JupyterProcess | None = None
    try:
        files = MachineFiles(arguments.ml)
        files.folder.mkdir(parents=True, exist_ok=True)
        if arguments.source is not None:
            for name in copy_source(arguments.source, arguments.work):
                _say(f"{name} was changed here and in the source: the one here is kept")
        if arguments.jupyter:
            jupyter = JupyterProcess(arguments.work, arguments.packages)
        return _watch(files, arguments.idle_timeout, jupyter)
    except JupyterMissing as missing:
        _say(f"{missing}: install jupyterlab there, or add it to requirements.txt")
        return 1
    except _Stop:
        return 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if jupyter is not None:
            jupyter.stop()


def _watch(files: MachineFiles, idle_timeout: float, jupyter: JupyterProcess | None) -> int:
    if jupyter is not None and (code := _wait_for_start(files, jupyter)) is not None:
        return code
    _say("the machine is ready" if jupyter is None else "Jupyter is ready")
    watch = IdleWatch(idle_timeout, None if jupyter is None else jupyter.server)
    while True:
        if jupyter is not None and (code := jupyter.poll()) is not None:
            if code == 0:
                _end(files, _SHUT_DOWN)
            return code if code >= 0 else 128 - code
        if (reason := watch.poll()) is not None:
            _end(files, reason)
            return 0
        time.sleep(min(_STEP_S, watch.pause))


def _wait_for_start(files: MachineFiles, jupyter: JupyterProcess) -> int | None:
    """Wait until the server answers, and write how to reach it; returns an exit code if it does not start."""
    until = time.monotonic() + _START_LIMIT_S
    ports = _PORTS
    while not jupyter.server.answers():
        if (code := jupyter.poll()) is not None:
            ports -= 1
            if ports and jupyter.start_on_another_port():
                continue
            _say("Jupyter ended before it answered")
            return code if code > 0 else 1
        if time.monotonic() > until:
            _say(f"Jupyter did not answer within {_START_LIMIT_S:.0f} s")
            return 1
        time.sleep(_STEP_S)
    jupyter.write_access(files)
    return None


def _end(files: MachineFiles, reason: str) -> None:
    _say(reason)
    write_json(files.end, {"version": VERSION, "reason": reason})


def _say(text: str) -> None:
    print(f"gpuproof: {text}", flush=True)


def _raise_stop(*_: Any) -> None:
    raise _Stop


RECORD = ".gpuproof-source.json"
"""The file in the work folder with the digest of each source file when it was copied there."""

_CHUNK = 1 << 20


def copy_source(source: Path, work: Path) -> list[str]:
    """Copy new and changed source files into the work folder; files that were changed on the machine are kept.

    Args:
        source: the source as it was sent.

    Returns:
        The names of files that were changed on the machine and in the source; the machine's are kept.

    Raises:
        OSError: a file cannot be read or written.
    """
    before = _read_record(work / RECORD)
    copied: dict[str, str] = {}
    kept: list[str] = []
    for name in _files(source):
        target, digest = work / name, _digest(source / name)
        copied[name] = digest
        current = _digest(target) if target.is_file() else None
        if current == digest or before.get(name) == digest:
            continue  # the same, or unchanged in the source: also if it was changed or deleted on the machine
        if current is not None and current != before.get(name):
            kept.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target)
    write_json(work / RECORD, copied)
    return kept


def _files(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield str(Path(root, name).relative_to(folder))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _read_record(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
