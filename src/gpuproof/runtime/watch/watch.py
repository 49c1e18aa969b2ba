"""`rt.watch()`: judges what the GPUs did for a script, a block or a function."""

from __future__ import annotations

import atexit
import functools
import os
from types import TracebackType
from typing import Any, Callable, TypeVar, overload

from gpuproof.runtime.watch.connection import Connection, Judgement, WatchOptions
from gpuproof.runtime.watch.process_exit import ProcessExit, replace_exit_code
from gpuproof.runtime.watch.shared_connection import (
    connect,
    current_connection,
    is_interactive,
    monitor_may_be_lost,
    note,
    print_text,
)
from gpuproof.runtime.watch.usage import GpuUsage, UsageMeter
from gpuproof.util.launcher import find_member

GPU_UNUSED_EXIT = 4
"""Exit code if the script ended well and a required GPU did no work; `gpuproof run` has the same."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class GpuUnused(RuntimeError):
    """A required GPU did no work in a block or function that `rt.watch()` watched."""


class Watch:
    """What `rt.watch()` returns: a context manager for a block and a decorator for a function."""

    def __init__(self, options: WatchOptions) -> None:
        self._options = options
        self._pid = os.getpid()
        self._exit: ProcessExit | None = None
        self._is_whole_process = False
        self._labels: list[str | None] = []
        self._meter = UsageMeter()

    def __enter__(self) -> Watch:
        _repeated.pop(self, None)
        if self._is_whole_process:
            # The call that began to watch the process was meant for this block.
            self._release()
            self._labels.append(None)
            return self
        connection = connect(self._options)
        self._labels.append(_begin(connection, self._options) if connection is not None else "")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        judgement = _end(self._labels.pop(), self._options)
        if judgement is None:
            return
        print_text(judgement.text)
        if judgement.unused and kind is None:
            raise GpuUnused(judgement.reason)

    def __call__(self, function: _Function) -> _Function:
        """Watch each call of a function."""
        _repeated.pop(self, None)
        if self._is_whole_process:
            # The call that began to watch the process was meant for this function.
            self._release()
            connection = current_connection()
            if connection is not None:
                with monitor_may_be_lost():
                    connection.withdraw()

        @functools.wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return watched  # pyright: ignore[reportReturnType]

    def usage(self) -> tuple[GpuUsage, ...]:
        """Utilization and memory of each GPU since the last call, for a progress bar or a logger; empty if nothing is measured."""
        return self._meter.read()

    def start(self) -> None:
        """Watch from here to the end of the process; does nothing if it is watched already."""
        connection = connect(self._options)
        if connection is None:
            return
        if connection.registered:
            _repeated[self] = self._options
            return
        with monitor_may_be_lost():
            connection.register(self._options)
            self._is_whole_process = True
            if is_interactive():
                note(
                    "In a notebook or an interactive interpreter, rt.watch() reports when it ends. Use `with rt.watch():` "
                    "for a part of it, or %%gpu after %load_ext gpuproof for a cell."
                )
            else:
                self._exit = ProcessExit()
            atexit.register(self._end_of_process)

    def _release(self) -> None:
        self._is_whole_process = False
        atexit.unregister(self._end_of_process)
        if self._exit is not None:
            self._exit.stop()

    def _end_of_process(self) -> None:
        if os.getpid() != self._pid:
            return  # a fork that ends as its parent would
        judgement = _end(None, self._options, self._code())
        if judgement is None:
            return
        print_text(judgement.text)
        if any(options != self._options for options in _repeated.values()):
            note("rt.watch() was called again with other options; those of the first call apply.")
        if judgement.unused and self._exit is not None and self._exit.code() in (0, None):
            replace_exit_code(GPU_UNUSED_EXIT)

    def _code(self) -> int | None:
        """The exit code for the report; an unknown one counts as success if that will let the process fail."""
        code = self._exit.code() if self._exit is not None else None
        connection = current_connection()
        if code is None and self._exit is not None and connection is not None:
            with monitor_may_be_lost():
                return None if connection.gpu_used() else 0
        return code


_repeated: dict[Watch, WatchOptions] = {}
"""What later calls have returned, without those that turned out to be for a block or a function."""


@overload
def watch(function: _Function, /) -> _Function: ...


@overload
def watch(
    *,
    gpus: int | None = None,
    require_gpu: bool = True,
    report: str | os.PathLike[str] | None = None,
    group: str | None = None,
    hosts: int | None = None,
    to: str | os.PathLike[str] | None = None,
) -> Watch: ...


def watch(
    function: Callable[..., Any] | None = None,
    /,
    *,
    gpus: int | None = None,
    require_gpu: bool = True,
    report: str | os.PathLike[str] | None = None,
    group: str | None = None,
    hosts: int | None = None,
    to: str | os.PathLike[str] | None = None,
) -> Any:
    """Judge what the GPUs do for this script, from here to the end of the process, for a block, or for a function.

    `rt.watch()` prints the verdict to standard error when the process ends, and lets it end with exit code 4 if it would have ended
    with 0 and a required GPU did no work. Of several processes that a launcher has started on a host, the last one does so for all.
    `with rt.watch():` judges a block, and `@rt.watch()` each call of a function; both raise `GpuUnused` at the end.

    A process of its own samples the GPUs, from outside of this interpreter. If it cannot be started, a line on standard error says why,
    and the script is unaffected. Does nothing in a process that `gpuproof run` or `gpuproof watch` watches already, and in the workers
    of a watched process.

    Args:
        gpus: how many GPUs must work; by default all that this process can see.
        require_gpu: whether it is a failure if they do no work.
        report: file for the report, as JSON.
        group: name of the job that several processes or hosts share; the launcher's by default.
        hosts: number of hosts of the job; as the launcher says by default.
        to: folder or `s3://` location for the reports of all hosts of a group.

    Raises:
        ValueError: `to` without a group and without a launcher.
    """
    options = WatchOptions(gpus, require_gpu, _path(report), group, _path(to), hosts)
    if to is not None and find_member(os.environ, group, hosts) is None:
        raise ValueError(
            "to= brings the hosts of one job together, and nothing says which job this is: start it with srun, mpirun, torchrun or as an "
            "indexed Kubernetes job, or name it with group="
        )
    handle = Watch(options)
    if function is not None:
        return handle(function)
    handle.start()
    return handle


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _begin(connection: Connection, options: WatchOptions) -> str | None:
    """Begin a block; `None` if it is the job, and an empty label if nothing can be measured."""
    with monitor_may_be_lost():
        if connection.registered:
            return connection.begin(options)
        connection.register(options)
        return None
    return ""


def _end(label: str | None, options: WatchOptions, code: int | None = None) -> Judgement | None:
    connection = current_connection()
    if connection is None or label == "":
        return None
    with monitor_may_be_lost():
        return connection.finish(code) if label is None else connection.end(label, options)
    return None
