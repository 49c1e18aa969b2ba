"""Runs a script as `__main__` in this process, as Python itself does, and reports how it ended.

An exception passes through to the interpreter, so that the exit code, threads, `atexit` and `sys.excepthook` work as
without this program; only its own frames are taken from the traceback.
"""

from __future__ import annotations

import os
import sys
import time
from types import CodeType, ModuleType, TracebackType

from gpuproof.agent.ranks.rank_file import FOLDER_VARIABLE, describe_rank, write_rank_file

_TORCH_VARIABLE = "TORCHELASTIC_ERROR_FILE"
_USAGE = "usage: gpuproof-agent --rank SCRIPT|-m MODULE [ARGUMENTS]"

_Values = dict[str, "str | int | float | None"]


def run_rank(words: list[str]) -> int:
    """Run a script or module to its end; return 0.

    Args:
        words: the script's path, or `-m` and a module's name; then the script's arguments.

    Raises:
        BaseException: whatever the script raises.
    """
    if not words or words == ["-m"]:
        print(_USAGE, file=sys.stderr)
        return 2
    process = os.getpid()
    folder = os.environ.get(FOLDER_VARIABLE)
    values: _Values = dict(describe_rank(time.time()))
    _write(folder, values)
    _remove_own_modules()
    try:
        code, module = _find_module(*words[1:]) if words[0] == "-m" else _read_script(*words)
        sys.modules["__main__"] = module
        exec(code, module.__dict__)  # noqa: S102 - the script
    except BaseException as error:
        steps = sys.modules.get("gpuproof.runtime.steps.install")
        if steps is not None:
            steps.remove_own_frames(error)
        trace = _without_own_frames(error.__traceback__)
        # A process that the script has forked is no rank.
        if os.getpid() == process:
            _report(error, trace, folder, values)
            _abort_mpi(error)
        _hide_own_frames(trace)
        raise
    if os.getpid() == process:
        _write(folder, {**values, "ended": time.time()})
    return 0


def _remove_own_modules() -> None:
    """Let the script's `import gpuproof` find the same package as without this program."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpuproof"]:
        del sys.modules[name]


def _read_script(script: str, *arguments: str) -> tuple[CodeType, ModuleType]:
    from importlib.machinery import SourceFileLoader  # not for a module

    sys.argv = [script, *arguments]
    _set_first_folder(os.path.dirname(os.path.realpath(script)))  # noqa: PTH120 - pathlib is slow to import
    path = os.path.abspath(script)  # noqa: PTH100
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            source = file.read()
    except OSError as error:
        print(
            f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    module = _main_module(path, SourceFileLoader("__main__", path))
    return compile(source, path, "exec", dont_inherit=True), module


def _find_module(name: str, *arguments: str) -> tuple[CodeType, ModuleType]:
    from importlib.util import find_spec  # not for a script

    sys.argv = ["-m", *arguments]
    _set_first_folder(os.getcwd())  # noqa: PTH109
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    code = spec.loader.get_code(spec.name) if spec is not None and hasattr(spec.loader, "get_code") else None  # type: ignore[union-attr]
    if spec is None or code is None:
        raise SystemExit(f"{sys.executable}: No module named {name}")
    sys.argv[0] = str(spec.origin)
    module = _main_module(spec.origin, spec.loader)
    module.__spec__, module.__package__ = spec, spec.parent
    module.__dict__["__cached__"] = spec.cached
    return code, module


def _main_module(path: str | None, loader: object) -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=path, __loader__=loader, __cached__=None, __builtins__=sys.modules["builtins"]
    )
    if sys.version_info < (3, 14):
        module.__dict__.update(__annotations__={})
    return module


def _set_first_folder(folder: str) -> None:
    """Replace the agent's archive, which Python has put first on the search path, by the script's folder."""
    if getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    else:
        sys.path[0] = folder


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    own = run_rank.__code__.co_filename
    while trace is not None and trace.tb_frame.f_code.co_filename == own:
        trace = trace.tb_next
    return trace


def _hide_own_frames(trace: TracebackType | None) -> None:
    """Let `sys.excepthook`, which may be the script's own, see the traceback that starts with the script."""
    show = sys.excepthook

    def show_scripts_frames(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        error.__traceback__ = trace
        show(kind, error, trace)

    sys.excepthook = show_scripts_frames


def _report(error: BaseException, trace: TracebackType | None, folder: str | None, values: _Values) -> None:
    now = time.time()
    if isinstance(error, SystemExit) and error.code in (None, 0):
        _write(folder, {**values, "ended": now})
        return
    torchs_file = os.environ.get(_TORCH_VARIABLE)
    if folder is None and torchs_file is None:
        return
    from traceback import format_exception  # only for a failure

    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the class is the script's own
        message = ""
    text = "".join(format_exception(kind, error, trace))
    code = 1
    if isinstance(error, SystemExit) and isinstance(error.code, int):
        code = error.code & 0xFF
    _write(folder, {**values, "time": now, "type": name, "message": message, "traceback": text, "code": code})
    if torchs_file is not None and not isinstance(error, SystemExit):
        _write_for_torch(torchs_file, f"{name}: {message}", text, now)


def _abort_mpi(error: BaseException) -> None:
    """Let the end of this process end all of MPI's ranks, as `python -m mpi4py` does: otherwise it waits for them."""
    normal = isinstance(error, SystemExit) and error.code in (None, 0)
    if normal or "mpi4py.MPI" not in sys.modules:
        return
    from mpi4py.run import set_abort_status  # type: ignore[import-not-found]  # of the image

    code = error.code if isinstance(error, SystemExit) else 1
    set_abort_status(code if isinstance(code, int) else 1)


def _write(folder: str | None, values: _Values) -> None:
    if folder is None:
        return
    try:
        write_rank_file(folder, values)
    except OSError:
        # A full disk must not end the script.
        return


def _write_for_torch(path: str, message: str, text: str, now: float) -> None:
    """Write the error file of `torch.distributed.elastic.multiprocessing.errors`, unless the script has done so itself."""
    import json  # only for a failure

    document = {
        "message": {
            "message": message,
            "extraInfo": {"py_callstack": text, "timestamp": str(int(now))},
        }
    }
    try:
        with open(path, "x", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123
            json.dump(document, file)
    except OSError:
        return
