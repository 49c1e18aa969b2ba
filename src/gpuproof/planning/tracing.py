"""Traces a script in a child process, with limits of time and memory: `python -m gpuproof.trace`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

from gpuproof.catalogue.model import Gpu
from gpuproof.errors import GPUproofError
from gpuproof.planning.contract import NO_CONTRACT, Contract, create_contract
from gpuproof.trace.document import Trace, TraceFailure, read_trace
from gpuproof.trace.launcher import AUTO

_PACKAGE = Path(__file__).resolve().parents[1]
_HOST_HALF = ("agent", "gpu", "runtime", "trace", "util")
_GRACE_S = 60.0
"""After the script's own time limit, which the child keeps unless it hangs in native code: also for importing PyTorch before."""
_LAST_LINES = 20
_TRACE = "trace.json"
_LOOK_S = 0.5


class NotTraceable(GPUproofError):
    """A script cannot be traced.

    Args:
        failure: why.
        output: what the script printed last.
    """

    def __init__(self, failure: TraceFailure, output: str = "") -> None:
        where = f"{failure.file}, line {failure.line}: " if failure.file else ""
        shown = f"\n{failure.traceback.rstrip()}" if failure.traceback else ""
        printed = f"\nIts last output:\n{output}" if output else ""
        super().__init__(f"{where}{failure.message}{shown}{printed}", failure.remedy)
        self.failure = failure


@dataclass(frozen=True)
class ServedModel:
    """A model that answers requests, in place of a script.

    Args:
        folder: the model's, with the content of `/opt/ml/model`.
        request: file with the body of a request; None for zeros in a shape that the model accepts.
        content_type: of the body.
    """

    folder: Path
    request: Path | None = None
    content_type: str = "application/json"


@dataclass(frozen=True)
class TraceRequest:
    """A script, and how to trace it.

    Args:
        script: the file.
        arguments: its own.
        python: the interpreter that has its framework.
        steps: how many to record; optimizers allocate their state in the first one.
        mode: whether steps are those of an optimizer or calls of a model.
        timeout: seconds.
        max_memory: bytes of this machine's memory.
        gpu: what the script is told that it has.
        gpus: how many of them.
        folder: in which it runs; the current one if None.
        contract: channels and hyperparameters that the script finds.
        change: what is changed in it to save memory: `amp`, `checkpointing`, or both with a comma; None for nothing.
        data: whether the script loads its own data, or known public data sets are replaced by zeros.
        model: the served model; `script` is then what it was made from.
        launcher: what starts the script, of `gpuproof.trace.launcher.LAUNCHERS`; `auto` if that is not known.
    """

    script: Path
    arguments: tuple[str, ...] = ()
    python: str = sys.executable
    steps: int = 3
    mode: Literal["training", "inference"] = "training"
    timeout: float = 300.0
    max_memory: int = 4 << 30
    gpu: Gpu | None = None
    gpus: int = 1
    folder: Path | None = None
    contract: Contract = NO_CONTRACT
    change: str | None = None
    model: ServedModel | None = None
    data: Literal["script", "synthetic"] = "script"
    launcher: str = AUTO


def trace_script(request: TraceRequest) -> Trace:
    """Trace a script.

    Raises:
        NotTraceable: it cannot be traced; the message has the line, the reason and what to do.
    """
    with _scratch(request) as scratch:
        return _trace(request, 1, scratch)


@dataclass(frozen=True)
class TracedSizes:
    """A script at two batch sizes.

    Args:
        trace: as it is.
        larger: with twice the batch size of its data loader; None if that is not known.
        reason: why it is not known.
        cached: these are from the cache.
    """

    trace: Trace
    larger: Trace | None
    reason: str = ""
    cached: bool = False


def trace_two_batch_sizes(request: TraceRequest) -> TracedSizes:
    """Trace a script as it is, and with twice the batch size of its data loader, at the same time.

    Raises:
        NotTraceable: it cannot be traced as it is.
    """
    with _scratch(request) as scratch, ThreadPoolExecutor(1) as pool:
        (scratch / "second").mkdir()
        unneeded = Event()
        # On a busy machine, it takes no time of the first one where it is probably not needed.
        second = pool.submit(_trace, request, 2, scratch / "second", unneeded, after=scratch / _TRACE)
        try:
            first = _trace(request, 1, scratch)
        except BaseException:
            unneeded.set()
            raise
        if request.model is None and (reason := _without_loader(first)) is not None:
            unneeded.set()
            return TracedSizes(first, None, reason)
        try:
            larger = second.result()
        except NotTraceable as error:
            reason = f"the script failed with twice the batch size: {error.failure.message}"
            return TracedSizes(first, None, reason)
    if request.model is not None and not (first.input.samples and larger.input.samples):
        return TracedSizes(
            first,
            None,
            "the response does not have one row for each row of the request, or transform_fn makes it",
        )
    if (reason := _without_loader(first)) is not None:
        return TracedSizes(first, None, reason)
    if larger.input.samples != 2 * (first.input.samples or 0):
        source = "data" if first.framework == "tensorflow" else "DataLoader"
        return TracedSizes(first, None, f"the batch size does not follow from the script's {source}")
    return TracedSizes(first, larger)


def _without_loader(trace: Trace) -> str | None:
    """Why the batch size of a script is not known; None if it is."""
    if trace.input.samples:
        return None
    source = "tf.data or Keras" if trace.framework == "tensorflow" else "DataLoader of PyTorch"
    return f"the script takes its batches from no {source}"


@contextmanager
def _scratch(request: TraceRequest) -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory(prefix="gpuproof-plan-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if request.python != sys.executable:
            _copy_host_half(
                folder / "host", (*_HOST_HALF, *(("serve",) if request.model is not None else ()))
            )
        yield folder


def _copy_host_half(folder: Path, packages: tuple[str, ...]) -> None:
    """What another interpreter needs of GPUproof, and nothing of this one's packages."""
    package = folder / "gpuproof"
    package.mkdir(parents=True)
    # Where GPUproof is installed, the rest of it stays visible.
    (package / "__init__.py").write_text("__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n")
    for name in ("version.py", "findings.py"):
        shutil.copyfile(_PACKAGE / name, package / name)
    for name in packages:
        shutil.copytree(_PACKAGE / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))


def _trace(
    request: TraceRequest,
    batch_scale: int,
    scratch: Path,
    unneeded: Event | None = None,
    after: Path | None = None,
) -> Trace:
    """Trace a script in a child, which is ended once its trace is not needed, and may wait for another trace to tell that."""
    output, log = scratch / _TRACE, scratch / "output.txt"
    written = scratch / "written"
    ml = written / "ml"
    ml.mkdir(parents=True)
    contract = create_contract(request.contract, request.script, request.gpus, ml)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            _command(request, batch_scale, output, written, after),
            env=_environment(request, scratch, contract),
            cwd=request.folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = _wait(process, request.timeout + _GRACE_S, unneeded)
        finally:
            _end(process)
    if output.exists():
        found = read_trace(output.read_text())
        if isinstance(found, Trace):
            return found
        raise NotTraceable(found, _last_lines(log) if found.code == "script-exit" else "")
    raise NotTraceable(_crash(code, request), _last_lines(log))


def _wait(process: subprocess.Popen[bytes], seconds: float, unneeded: Event | None) -> int | None:
    """The exit code; None if the process takes too long or is no longer needed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not (unneeded is not None and unneeded.is_set()):
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
    return None


def _command(
    request: TraceRequest, batch_scale: int, output: Path, written: Path, after: Path | None
) -> list[str]:
    options: dict[str, object] = {
        "output": output,
        "scratch": written,
        "steps": request.steps,
        "mode": request.mode,
        "batch-scale": batch_scale,
        "timeout": request.timeout,
        "max-memory": request.max_memory,
        "gpus": request.gpus,
        "data": request.data,
        "launcher": request.launcher,
    }
    if after is not None:
        options["after"] = after
    if request.change is not None:
        options["change"] = request.change
    gpu = request.gpu
    if gpu is not None and gpu.compute_capability is not None:
        major, minor = gpu.compute_capability
        options["gpu-name"] = f"{gpu.vendor} {gpu.name}"
        options["gpu-memory"] = gpu.memory_gb << 30
        options["capability"] = major * 10 + minor
    script = [str(request.script.absolute()), *request.arguments]
    mounts = [f"{source}:{target}" for target, source in request.contract.mounts().items()]
    if request.model is not None:
        options.update(mode="serving", gpus=1)  # a worker sees one GPU
        options["content-type"] = request.model.content_type
        if request.model.request is not None:
            options["request"] = request.model.request.absolute()
        script = [str(request.model.folder)]
    else:
        options["ml"] = written / "ml"
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    flags += [word for mount in mounts for word in ("--mount", mount)]
    return [request.python, "-X", "faulthandler", "-m", "gpuproof.trace", *flags, "--", *script]


def _environment(request: TraceRequest, scratch: Path, contract: Mapping[str, str]) -> dict[str, str]:
    environment = {
        **os.environ,
        **contract,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if request.python != sys.executable:
        host = next(folder / "host" for folder in (scratch, scratch.parent) if (folder / "host").exists())
        own = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{host}{os.pathsep}{own}" if own else str(host)
    return environment


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child with everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _crash(code: int | None, request: TraceRequest) -> TraceFailure:
    remedy = "See whether the script runs here without a GPU up to its first step."
    if code is None:
        text = f"The script hung in native code and was ended after {request.timeout + _GRACE_S:g} s."
        return TraceFailure("timeout", text, f"Give it more time (--timeout). {remedy}")
    if code < 0:
        text = f"The script's process crashed with {signal.Signals(-code).name} while it was traced."
        return TraceFailure("crash", text, f"An operator of its own may need a real GPU. {remedy}")
    text = f"The script's process ended with exit code {code} and left no trace."
    return TraceFailure("crash", text, remedy)


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:])
