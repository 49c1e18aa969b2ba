"""Why a script cannot be traced, by the exception that ended it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator

from gpuproof.trace.document import TraceFailure
from gpuproof.trace.launcher import TORCHRUN, rank_variables
from gpuproof.trace.notes import is_users

_LIBRARIES = ("transformers", "diffusers", "huggingface_hub", "datasets", "timm", "torchvision", "peft")
_DATA_SETS = (
    f"{os.sep}torchvision{os.sep}datasets{os.sep}",
    f"{os.sep}keras{os.sep}src{os.sep}datasets{os.sep}",
)
_DYNAMIC = ("DynamicOutputShapeException", "DataDependentOutputException")


class CannotTrace(Exception):
    """Something that a script needs cannot be traced.

    Args:
        code: a name for programs.
        message: why.
        remedy: what to do.
    """

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.code, self.remedy = code, remedy


def failure_of(error: BaseException) -> TraceFailure:
    """Why there is no trace, with the line of the user's code that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if is_users(frame.filename)]
    place = users[-1] if users else None
    code, message, remedy = _reason(error, frames)
    return TraceFailure(
        code,
        message,
        remedy,
        place.filename if place else None,
        place.lineno if place else None,
        "".join((*traceback.format_list(users), *traceback.format_exception_only(type(error), error))),
    )


def _reason(error: BaseException, frames: traceback.StackSummary) -> tuple[str, str, str]:
    raised = f"The script raised {type(error).__name__}: {error}"
    if isinstance(error, CannotTrace):
        return error.code, str(error), error.remedy
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", raised, "Run it again."
    if type(error).__name__ in _DYNAMIC:
        return (
            "dynamic-shape",
            raised,
            "This operator's result depends on values that only a GPU knows; pass arguments that avoid it.",
        )
    if any(place in frame.filename for frame in frames for place in _DATA_SETS):
        return (
            "missing-data",
            raised,
            (
                "If the data set is MNIST, Fashion-MNIST, KMNIST, CIFAR-10 or CIFAR-100, pass --data synthetic. Otherwise put a few samples where the "
                "script looks for them."
            ),
        )
    if _is_missing(error, frames):
        return (
            "missing-file",
            f"{raised}\nA model's configuration, a tokenizer or a data set is not on this machine and could not be downloaded.",
            (
                "Pass a local folder in place of the name: of a model with its config.json, of a tokenizer with its files. "
                "Or download these first, as `hf download NAME config.json` does. Weights are not needed."
            ),
        )
    if isinstance(error, ModuleNotFoundError):
        return (
            "missing-package",
            raised,
            "Install it in the Python that traces the script (--python names another one).",
        )
    if isinstance(error, FileNotFoundError):
        return (
            "missing-file",
            raised,
            "Pass arguments with which the script needs no such file: a few samples of the data, no checkpoint to resume from.",
        )
    if isinstance(error, KeyError) and error.args and error.args[0] in rank_variables(TORCHRUN, 1):
        return (
            "no-launcher",
            f"{raised}, a variable that torchrun sets, and the job starts the script without it.",
            "Set distribution: torchrun in the job.",
        )
    return "script-error", raised, "See whether it runs here without a GPU up to its first step."


def _is_missing(error: BaseException, frames: traceback.StackSummary) -> bool:
    """Whether a library that downloads did not find or get a file."""
    folders = tuple(f"{os.sep}site-packages{os.sep}{name}{os.sep}" for name in _LIBRARIES)
    places = (*folders, f"{os.sep}torch{os.sep}hub.py")
    inside = any(place in frame.filename for frame in frames for place in places)
    return inside and any(
        isinstance(cause, OSError)
        or type(cause).__module__.partition(".")[0] in ("huggingface_hub", "httpx", "httpx2")
        for cause in _chain(error)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
