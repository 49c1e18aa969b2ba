"""Runs a script as `python script.py` would, and writes its trace or why there is none."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from gpuproof.trace.dependencies import Dependencies
from gpuproof.trace.document import Note, Reads, Trace, TraceFailure, write_failure, write_trace
from gpuproof.trace.epochs import Epochs
from gpuproof.trace.failures import failure_of
from gpuproof.trace.frameworks import frameworks_of, keras_settings, only_predicts
from gpuproof.trace.launcher import AUTO, LAUNCHERS, set_rank_variables
from gpuproof.trace.notes import is_users, user_line
from gpuproof.trace.private_contract import OWN_FOLDERS, enter_contract, names_contract
from gpuproof.trace.side_effects import Scratch
from gpuproof.trace.synthetic_data import SyntheticData
from gpuproof.trace.target import TargetGpu
from gpuproof.trace.uploads import Uploads

_CHECK_S = 0.1
_OPEN, _REPLACE = open, os.replace
"""What Python has, whatever the script's side effects are redirected to."""


def main() -> int:
    """Trace the script of the command line; always writes a trace or a failure."""
    options = _parse()
    target = TargetGpu(
        options.gpu_name,
        options.gpu_memory,
        (options.capability // 10, options.capability % 10),
        options.processors,
        options.gpus,
    )
    output = Path(options.output)
    script = options.script[0]
    # First of all: only a process with one thread may do this.
    refused = None if options.ml is None else enter_contract(Path(options.ml), options.mount)
    sys.argv = options.script
    sys.path[0] = str(Path(script).resolve().parent)
    epochs = Epochs()
    dependencies = Dependencies(options.scratch)
    synthetic: SyntheticData | None = None

    def finished() -> Trace | TraceFailure:
        trace = epochs.added_to(session.finish())
        reads = dependencies.found()
        if isinstance(trace, Trace) and reads is not None:
            trace = replace(trace, reads=Reads(*reads))
        return trace if synthetic is None else synthetic.added_to(trace)

    def ended_early(failure: TraceFailure) -> Trace | TraceFailure:
        """What was recorded before the script failed, if that is a step; else the failure."""
        trace = finished() if session.has_steps else failure
        if isinstance(trace, TraceFailure):
            return failure
        text = f"The script ended after {trace.steps} of {options.steps} steps: {failure.message}"
        return replace(
            trace, assumptions=[*trace.assumptions, Note("ended-early", text, failure.file, failure.line)]
        )

    tensorflow = _uses_tensorflow(options, output)
    if tensorflow and (failure := _keras_failure(Path(script), options.change)) is not None:
        _leave(output, failure)
    try:
        session = _session(options, target, tensorflow, lambda: _leave(output, finished()))
    except ImportError as error:
        name = "TensorFlow and Keras 3" if tensorflow else "PyTorch"
        package = "tensorflow" if tensorflow else "torch"
        _leave(
            output,
            TraceFailure("no-framework", f"This Python has no {name}: {error}.", f"Install {package}."),
        )
    if not tensorflow and options.mode != "serving":
        set_rank_variables(options.launcher, options.gpus, session.notes)
    if refused is not None and names_contract(Path(script)):
        text = f"This machine allows no private /opt/ml ({refused}): paths in it are this machine's own."
        session.notes.add("contract", text)
    if options.scratch is not None:
        own = () if options.ml is None or refused is not None else OWN_FOLDERS
        scratch = Scratch(Path(options.scratch).resolve(), session.notes, own)
        scratch.install()
        if tensorflow:
            session.list_folders_with(scratch.view_of)
        Uploads(session.notes).install()
    if options.data == "synthetic":
        synthetic = SyntheticData(session.notes)
        synthetic.install("tensorflow" if tensorflow else "torch")
    epochs.watch()
    dependencies.watch()
    # From here on: importing PyTorch may take long on a busy machine, and is not the script's time.
    main_thread = threading.main_thread().ident or 0
    watch = partial(_watch, options, lambda failure: _leave(output, ended_early(failure)), main_thread)
    threading.Thread(target=watch, daemon=True).start()
    try:
        with session:
            if options.mode == "serving":
                _serve(options, output, session)
            else:
                _run(script)
    except SystemExit as end:
        if end.code not in (None, 0):
            _leave(output, ended_early(_ended(end)))
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is the answer
        _leave(output, ended_early(failure_of(error)))
    _leave(output, finished())


def _session(options: argparse.Namespace, target: TargetGpu, tensorflow: bool, complete: Any) -> Any:
    script = Path(options.script[0])
    inference = options.mode == "inference"
    if options.mode == "training" and only_predicts(script):
        inference = True
    own: dict[str, Any] = {}
    if tensorflow:
        from gpuproof.trace.tensorflow.session import TensorFlowSession as Session
    else:
        from gpuproof.trace.pytorch.session import TorchSession as Session

        if options.after is not None:
            own["wait"] = partial(_wait_for, Path(options.after))

    return Session(
        target,
        steps=options.steps,
        batch_scale=options.batch_scale,
        inference=inference,
        serving=options.mode == "serving",
        complete=complete,
        change=options.change,
        **own,
    )


def _wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(_CHECK_S)


def _uses_tensorflow(options: argparse.Namespace, output: Path) -> bool:
    """Whether the script trains with TensorFlow or Keras, or the served model is one of these."""
    script = Path(options.script[0])
    if options.mode != "serving":
        return "tensorflow" in frameworks_of(script)
    # Here and below: of an interpreter that serves nothing, GPUproof's model server is not there.
    from gpuproof.serve.errors import LoadError
    from gpuproof.trace.handler import framework_of

    try:
        return framework_of(script) == "tensorflow"
    except LoadError as error:
        _leave(output, _load_failure(error))


def _serve(options: argparse.Namespace, output: Path, session: Any) -> None:
    from gpuproof.serve.errors import LoadError
    from gpuproof.trace.handler import NoRequest, SampleRequest, answer_requests

    body = None if options.request is None else Path(options.request).read_bytes()
    sample = SampleRequest(body, options.content_type)
    try:
        answer_requests(Path(options.script[0]), sample, options.steps, options.batch_scale, session)
    except LoadError as error:
        _leave(output, _load_failure(error))
    except NoRequest as error:
        _leave(output, error.failure)


def _load_failure(error: Any) -> TraceFailure:
    """Why a model cannot be loaded: the exception of its handler, if there was one."""
    cause = failure_of(error.__cause__ or error)
    remedy = error.remedy or cause.remedy
    return replace(cause, code="model", message=error.message, remedy=remedy)


def _keras_failure(script: Path, change: str | None) -> TraceFailure | None:
    backend, legacy = keras_settings(script)
    if backend != "tensorflow":
        return TraceFailure(
            "keras-backend",
            f"The script runs Keras on {backend}, which cannot be traced.",
            "Set KERAS_BACKEND=tensorflow for the plan: the model needs about the same.",
        )
    if change is not None and change != "amp":
        return TraceFailure(
            "change",
            "Activation checkpointing of TensorFlow cannot be traced.",
            "Try keras.RematScope in the script itself.",
        )
    if legacy:
        return TraceFailure(
            "legacy-keras",
            "The script asks for Keras 2 (TF_USE_LEGACY_KERAS), which cannot be traced.",
            "Unset TF_USE_LEGACY_KERAS, so that tf.keras is Keras 3.",
        )
    return None


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gpuproof.trace", allow_abbrev=False)
    default = TargetGpu()
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--mode", choices=("training", "inference", "serving"), default="training")
    parser.add_argument("--request", help="file with the body of a request, when serving")
    parser.add_argument("--content-type", default="application/json", help="of that body")
    parser.add_argument("--batch-scale", type=int, default=1)
    parser.add_argument(
        "--after",
        help="file that is waited for if another batch size seems to change nothing: the first trace",
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds")
    parser.add_argument("--max-memory", type=int, default=4 << 30, help="bytes")
    parser.add_argument("--gpu-name", default=default.name)
    parser.add_argument("--gpu-memory", type=int, default=default.memory, help="bytes")
    parser.add_argument("--capability", type=int, default=80, help="such as 86 for 8.6")
    parser.add_argument("--processors", type=int, default=default.processors)
    parser.add_argument("--gpus", type=int, default=default.count)
    parser.add_argument("--launcher", choices=LAUNCHERS, default=AUTO)
    parser.add_argument(
        "--change", help="change of the script that saves memory: amp, checkpointing, or both with a comma"
    )
    parser.add_argument("--data", choices=("script", "synthetic"), default="script")
    parser.add_argument("--scratch", help="existing folder that takes what the script writes")
    parser.add_argument("--ml", help="folder that becomes /opt/ml for the script, where that is allowed")
    parser.add_argument(
        "--mount",
        action="append",
        default=[],
        metavar="SOURCE:TARGET",
        help="an absolute folder, and its path below /opt/ml",
    )
    parser.add_argument(
        "script", nargs="+", help="a script and its arguments; when serving, a model's folder"
    )
    return parser.parse_args()


def _run(script: str) -> None:
    path = Path(script).resolve()
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102 - this is the user's own script


def _watch(options: argparse.Namespace, leave: Callable[[TraceFailure], NoReturn], thread: int) -> None:
    """End the process when it takes too long or too much memory."""
    until = time.monotonic() + options.timeout
    while True:
        time.sleep(_CHECK_S)
        if time.monotonic() > until:
            text, remedy = _late(options)
            leave(_interrupted("timeout", text, remedy, thread))
        if _resident() > options.max_memory:
            text = (
                f"The script needed more than {options.max_memory / 2**30:.1f} GiB of this machine's memory."
            )
            remedy = "Load less data before the first step, or allow more (--max-memory)."
            leave(_interrupted("memory", text, remedy, thread))


def _late(options: argparse.Namespace) -> tuple[str, str]:
    if options.mode == "serving":
        text = f"The model answered fewer than {options.steps} requests in {options.timeout:g} s."
        return text, "Give it more time (--timeout)."
    text = f"The script made fewer than {options.steps} steps in {options.timeout:g} s."
    remedy = "Give it more time (--timeout), or less to do before its first step, such as fewer data."
    if options.mode == "training":
        remedy += " If it does not train, pass --inference."
    return text, remedy


def _interrupted(code: str, message: str, remedy: str, thread: int) -> TraceFailure:
    frame = sys._current_frames().get(thread)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    file, line = user_line(frame) if frame is not None else (None, None)
    stack = "".join(traceback.format_list(_users_stack(frame)))
    return TraceFailure(code, message, remedy, file, line, stack)


def _users_stack(frame: FrameType | None) -> list[traceback.FrameSummary]:
    return [entry for entry in traceback.extract_stack(frame) if is_users(entry.filename)] if frame else []


def _ended(end: SystemExit) -> TraceFailure:
    message = f"The script ended with {end.code!r} before its first step."
    return TraceFailure("script-exit", message, "Pass the arguments with which it trains after `--`.")


def _leave(output: Path, result: Trace | TraceFailure) -> NoReturn:
    """Write the result and end the process without the script's clean-up, which would save and upload."""
    text = write_failure(result) if isinstance(result, TraceFailure) else write_trace(result)
    partial = output.with_suffix(".partial")
    with _OPEN(partial, "w") as file:
        file.write(text)
    _REPLACE(partial, output)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _resident() -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
