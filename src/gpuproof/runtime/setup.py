"""`setup()`: one call before the first operation."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.gpu.diagnosis import visible_gpus
from gpuproof.runtime.call_site import caller, imported_at, place
from gpuproof.runtime.framework_settings import tensorflow_settings, torch_settings
from gpuproof.runtime.framework_settings.precision import FLOAT16, Precision, choose
from gpuproof.runtime.framework_settings.setting import Outcome, Wishes, put_variable
from gpuproof.runtime.imported_frameworks import (
    NAMES,
    TENSORFLOW,
    TORCH,
    imported,
    installed,
    load,
    loaded,
    named,
)
from gpuproof.runtime.stack_probe import read_gpus
from gpuproof.util.log import say_once

# Read once, when the framework that they belong to is imported or first used.
_OWNERS = {"TF_": TENSORFLOW, "KERAS_": TENSORFLOW, "PYTORCH_": TORCH, "TORCH_": TORCH}
# What CUDA_VISIBLE_DEVICES was before `setup()` narrowed it, and what it made of it.
_narrowed: list[str | None] = []


@dataclass(frozen=True)
class Setup:
    """What `setup()` did.

    Args:
        frameworks: those that it was done for, by import name.
        applied: what holds now.
        not_applied: what does not, and why.
        precision: what to compute in.
    """

    frameworks: tuple[str, ...]
    applied: tuple[Outcome, ...]
    not_applied: tuple[Outcome, ...]
    precision: Precision

    def __str__(self) -> str:
        lines = [f"  {outcome}" for outcome in self.applied]
        lines += [f"  not applied: {outcome}" for outcome in self.not_applied]
        return "\n".join(["setup", *lines, f"  computes in {self.precision.dtype}: {self.precision.why}"])

    def autocast(self) -> Any:
        """`torch.autocast` in this precision, for a `with` statement around forward pass and loss; else it does nothing."""
        torch: Any = load(TORCH)
        dtype = getattr(torch, self.precision.dtype if self.precision.mixed else "bfloat16")
        return torch.autocast("cuda", dtype=dtype, enabled=self.precision.mixed)

    def grad_scaler(self) -> Any:
        """A `torch.amp.GradScaler`; it scales where the precision is float16 and passes everything through elsewhere."""
        torch: Any = load(TORCH)
        enabled = self.precision.dtype == FLOAT16
        # `torch.amp` has it from 2.3 on.
        if hasattr(torch.amp, "GradScaler"):
            return torch.amp.GradScaler("cuda", enabled=enabled)
        return torch.cuda.amp.GradScaler(enabled=enabled)


def setup(
    memory_growth: bool = True,
    visible_devices: Sequence[int] | int | None = None,
    mixed_precision: str | None = None,
    seed: int | None = None,
    threads: int | None = None,
    allocator: str | None = None,
    variables: Mapping[str, str] | None = None,
    framework: str | None = None,
) -> Setup:
    """Prepare TensorFlow or PyTorch; call it once before the first operation, better before the framework's import.

    It imports no framework but one that is named. What has to be set before an import goes into the environment, where
    a user's own setting stands. What came too late is in the report and, once, on standard error, with the place in
    the script. Calling it again with the same settings changes nothing.

    Args:
        memory_growth: let TensorFlow take memory on every visible GPU as it needs it, rather than nearly all of it at
            once. That is a policy of allocation: it makes nothing faster, adds no memory and may fragment it; it lets
            several processes share a GPU and lets the verdict see what the job really needed. PyTorch always does so.
        visible_devices: the GPUs to use, from 0, among those that `CUDA_VISIBLE_DEVICES` shows.
        mixed_precision: `auto` (bfloat16 from compute capability 8.0 on, float16 with loss scaling on 7.x, float32
            elsewhere), `bfloat16` or `float16` where the GPU has tensor cores for it, `None` for none. It sets Keras's
            policy; with PyTorch use the report's `autocast()` and `grad_scaler()`.
        seed: for Python's, NumPy's and the framework's random numbers. `PYTHONHASHSEED` cannot be set from inside.
        threads: processor threads for one operation.
        allocator: `async` (CUDA's stream-ordered allocator), `expandable` (PyTorch's expandable segments), or a value
            for `PYTORCH_CUDA_ALLOC_CONF`.
        variables: environment variables that must be set before the framework is imported, such as
            `TF_ENABLE_ONEDNN_OPTS`.
        framework: `tensorflow` or `torch`; it is imported. By itself those that the script has imported, else those
            that it could import.

    Raises:
        ValueError: a value that is none.
    """
    wishes = Wishes(memory_growth, _indexes(visible_devices), seed, threads, allocator)
    if mixed_precision is not None:
        choose(mixed_precision, ())  # an impossible value is refused before anything is changed
    names = (named(framework),) if framework is not None else imported() or installed()
    outcomes = [_variable(name, value) for name, value in (variables or {}).items()]
    outcomes += _visibility(names, wishes)
    for name in names:
        outcomes += _apply(name, wishes, importing=framework is not None)
    if seed is not None:
        outcomes += _seed_everything_else(seed, names)
    precision = Precision()
    if mixed_precision is not None:
        precision = choose(mixed_precision, _capabilities(wishes.visible_devices))
        outcomes += _use_precision(precision, mixed_precision)
    report = Setup(
        names,
        tuple(outcome for outcome in outcomes if outcome.problem is None),
        tuple(outcome for outcome in outcomes if outcome.problem is not None),
        precision,
    )
    for outcome in report.not_applied:
        say_once(f"setup() could not apply {outcome}")
    return report


def _apply(name: str, wishes: Wishes, importing: bool) -> Iterator[Outcome]:
    settings: Any = tensorflow_settings if name == TENSORFLOW else torch_settings
    if loaded(name) is None:
        yield from settings.before_import(wishes)
        if not importing:
            return
    yield from settings.after_import(load(name), wishes)


def _variable(name: str, value: str) -> Outcome:
    owner = next((owner for prefix, owner in _OWNERS.items() if name.startswith(prefix)), None)
    if owner is None or loaded(owner) is None or os.environ.get(name) == value:
        return put_variable(name, value)
    where = imported_at(owner)
    above = f" in {where}" if where else ""
    return Outcome(
        name,
        value,
        f"it is read when {NAMES[owner]} is imported: move setup() ({place(*caller())}) above that import{above}",
    )


def _visibility(names: tuple[str, ...], wishes: Wishes) -> Iterator[Outcome]:
    """`CUDA_VISIBLE_DEVICES` for what has not looked yet; TensorFlow, once imported, is told through its API."""
    if wishes.visible_devices is None or (TENSORFLOW in names and loaded(TENSORFLOW) is not None):
        return
    torch = loaded(TORCH)
    if torch is not None and torch_settings.cuda_started(torch):
        yield Outcome(
            "visible GPUs of PyTorch",
            str(list(wishes.visible_devices)),
            f"PyTorch had already used a GPU when {place(*caller())} asked for it: move setup() above that",
        )
        return
    value = _within(os.environ.get("CUDA_VISIBLE_DEVICES"), wishes.visible_devices)
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    yield Outcome("CUDA_VISIBLE_DEVICES", value)


def _within(present: str | None, chosen: tuple[int, ...]) -> str:
    """`CUDA_VISIBLE_DEVICES` for some of the GPUs that it shows; narrowing it twice does not narrow twice."""
    if _narrowed and _narrowed[-1] == present:
        present = _narrowed[0]
    shown = present.split(",") if present else None
    if shown is not None and any(index >= len(shown) for index in chosen):
        raise ValueError(f"visible_devices={list(chosen)}: CUDA_VISIBLE_DEVICES={present} shows {len(shown)}")
    value = ",".join(shown[index] if shown is not None else str(index) for index in chosen)
    _narrowed[:] = [present, value]
    return value


def _seed_everything_else(seed: int, names: tuple[str, ...]) -> Iterator[Outcome]:
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    for keras in (sys.modules.get("keras"), sys.modules.get("tf_keras")):
        if keras is not None and hasattr(keras, "utils"):
            keras.utils.set_random_seed(seed)
    yield Outcome("seed of Python" + (" and NumPy" if numpy is not None else ""), str(seed))
    if names and not imported():
        yield Outcome("seed of the framework", str(seed), _not_imported(names))


def _use_precision(precision: Precision, wanted: str) -> Iterator[Outcome]:
    if not precision.as_asked:
        yield Outcome("mixed precision", wanted, precision.why)
    tensorflow = loaded(TENSORFLOW)
    if tensorflow is not None:
        yield tensorflow_settings.set_policy(tensorflow, precision.dtype)
    elif precision.mixed and loaded(TORCH) is None and TENSORFLOW in installed():
        yield Outcome("Keras's dtype policy", precision.dtype, _not_imported((TENSORFLOW,)))


def _not_imported(names: tuple[str, ...]) -> str:
    called = " nor ".join(NAMES[name] for name in names)
    return (
        f"{'neither ' if len(names) > 1 else ''}{called} is {'' if len(names) > 1 else 'not '}imported yet: call setup() "
        f"once more after the import, or name it, as in setup(framework={next(iter(names))!r})"
    )


def _capabilities(chosen: tuple[int, ...] | None) -> tuple[tuple[int, int], ...]:
    # NVML starts nothing on the GPU, so asking it comes too early for nobody.
    shown = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), read_gpus())
    tensorflow = loaded(TENSORFLOW)
    if tensorflow is not None and chosen is not None:
        shown = tuple(gpu for number, gpu in enumerate(shown) if number in chosen)
    found = tuple(gpu.compute_capability for gpu in shown if gpu.compute_capability is not None)
    return found or _torch_capabilities()


def _torch_capabilities() -> tuple[tuple[int, int], ...]:
    """PyTorch's own reading, for machines on which NVML cannot be used."""
    torch = loaded(TORCH)
    if torch is None or not torch.cuda.is_available():
        return ()
    found = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
    return tuple((int(major), int(minor)) for major, minor in found)


def _indexes(wanted: Sequence[int] | int | None) -> tuple[int, ...] | None:
    if wanted is None:
        return None
    indexes = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    if not all(isinstance(index, int) and index >= 0 for index in indexes):
        raise ValueError(f"visible_devices={wanted!r}: GPUs' numbers from 0, such as [0, 1]")
    return indexes
