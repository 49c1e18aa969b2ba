"""Traces of scripts that have not changed since: in the user's cache, beside a digest of everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import gpuproof.trace
from gpuproof.planning.tracing import TracedSizes, TraceRequest, trace_two_batch_sizes
from gpuproof.settings import cache_dir
from gpuproof.trace.document import Trace, read_trace, write_trace
from gpuproof.version import __version__

_VERSION = 1
_MOST_ENTRIES = 64
_HASHED = 1 << 20
"""Bytes of a file up to which its content is compared; of a larger one, size and time."""
_MOST_NAMES = 20_000
"""In a folder that is compared with those below it."""
_WITHOUT_EFFECT = frozenset(
    (
        *(
            "_",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "TERM",
            "COLORTERM",
            "COLUMNS",
            "LINES",
            "WINDOWID",
            "LS_COLORS",
            "PS1",
        ),
        *("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AUTH_SOCK", "TMUX", "TMUX_PANE", "STY", "GPG_TTY"),
        *(
            "NO_COLOR",
            "FORCE_COLOR",
            "CI",
            "PAGER",
            "LESS",
            "EDITOR",
            "VISUAL",
            "MAIL",
            "HISTFILE",
            "INVOCATION_ID",
        ),
        *(
            "GPUPROOF_STATE_DIR",
            "GPUPROOF_CACHE_DIR",
            "VSCODE_IPC_HOOK_CLI",
            "TERM_SESSION_ID",
            "JPY_PARENT_PID",
        ),
    )
)
"""Variables of terminals and sessions, which change while nothing else does."""


def traced_or_cached(request: TraceRequest, *, use_cache: bool = True) -> TracedSizes:
    """The traces of a script at two batch sizes, from the cache if nothing has changed since they were made.

    Compared are the script's arguments, options and environment, the files that it read, its own modules among them, the names in
    the folders of these and in those that it listed or got as arguments, the installed packages, and GPUproof itself. Served models
    are always traced.

    Args:
        use_cache: whether traces of the cache will do; new ones are stored in any case.

    Raises:
        NotTraceable: it cannot be traced as it is.
    """
    if request.model is not None:
        return trace_two_batch_sizes(request)
    path = _path(request)
    if use_cache and path is not None and (found := _read(path, request)) is not None:
        return found
    traced = trace_two_batch_sizes(request)
    if path is not None:
        with suppress(OSError):
            _write(path, request, traced)
    return traced


def _path(request: TraceRequest) -> Path | None:
    try:
        folder = cache_dir() / "traces"
    except Exception:  # noqa: BLE001 - without a cache folder, nothing is cached
        return None
    content = {
        "version": [
            _VERSION,
            __version__,
            _digest(_stamps(Path(gpuproof.trace.__file__).parent.rglob("*.py"))),
        ],
        "interpreter": [request.python, _stamp(Path(request.python)), sys.version],
        "working folder": os.getcwd(),  # noqa: PTH109
        "environment": {name: value for name, value in os.environ.items() if name not in _WITHOUT_EFFECT},
        "request": {field.name: repr(getattr(request, field.name)) for field in fields(request)},
    }
    return folder / f"{_digest(content)}.json"


def _read(path: Path, request: TraceRequest) -> TracedSizes | None:
    """What is stored, unless it is out of date or not readable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["state"] != _digest(_state(content["files"], content["folders"], request)):
            return None
        first = read_trace(json.dumps(content["first"]))
        larger = None if content["larger"] is None else read_trace(json.dumps(content["larger"]))
        if not isinstance(first, Trace) or not isinstance(larger, Trace | None):
            return None
        with suppress(OSError):
            os.utime(path)
        return TracedSizes(first, larger, str(content["reason"]), cached=True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, request: TraceRequest, traced: TracedSizes) -> None:
    reads = traced.trace.reads
    if reads is None:
        return
    content: dict[str, Any] = {
        "files": reads.files,
        "folders": reads.folders,
        "state": _digest(_state(reads.files, reads.folders, request)),
        "first": json.loads(write_trace(replace(traced.trace, reads=None))),
        "larger": None
        if traced.larger is None
        else json.loads(write_trace(replace(traced.larger, reads=None))),
        "reason": traced.reason,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, suffix=".partial")
    with os.fdopen(number, "w", encoding="utf-8") as file:
        json.dump(content, file, separators=(",", ":"))
    os.replace(name, path)  # noqa: PTH105
    entries = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in entries[_MOST_ENTRIES:]:
        entry.unlink(missing_ok=True)


def _state(files: Iterable[str], folders: Iterable[str], request: TraceRequest) -> Any:
    """What the files and folders are now, as a value to compare."""
    given, below = _given(request)
    return [
        [[name, _content(Path(name))] for name in sorted({*files, *given})],
        [[name, _names(name)] for name in sorted(folders)],
        [[name, _tree(name)] for name in sorted(below)],
    ]


def _given(request: TraceRequest) -> tuple[set[str], set[str]]:
    """The files and folders that arguments and channels name: data that no Python code opens is in them."""
    base = Path.cwd() if request.folder is None else request.folder
    words = [part for word in request.arguments for part in (word, word.partition("=")[2]) if part]
    paths = [base / word for word in words if len(word) < os.pathconf("/", "PC_PATH_MAX")]
    paths += [Path(place) for place in request.contract.channels.values()]
    files: set[str] = {str(request.script.absolute())}
    folders: set[str] = set()
    for path in paths:
        with suppress(OSError, ValueError):
            if path.is_dir():
                folders.add(str(path.absolute()))
            elif path.is_file():
                files.add(str(path.absolute()))
    return files, folders


def _content(path: Path) -> object:
    try:
        status = path.stat()
        if status.st_size > _HASHED:
            return [status.st_size, status.st_mtime_ns]
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _names(folder: str) -> object:
    try:
        return _digest(sorted(name for name in os.listdir(folder) if name != "__pycache__"))  # noqa: PTH208
    except OSError:
        return None


def _tree(folder: str) -> object:
    """The names, sizes and times of everything below a folder, up to a number of them."""
    found: list[object] = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and not name.startswith("."))
        found += [[path, name, _stamp(Path(path, name))] for name in sorted(files)]
        if len(found) > _MOST_NAMES:
            break
    return _digest(found)


def _stamps(paths: Iterable[Path]) -> list[object]:
    return [[path.name, _stamp(path)] for path in sorted(paths)]


def _stamp(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
