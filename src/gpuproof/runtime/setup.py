"""`setup()`: configures TensorFlow and PyTorch, in one call before the first operation."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.gpu.diagnosis import visible_gpus
from gpuproof.runtime.call_site import caller, find_import, format_location
from gpuproof.runtime.framework_settings import tensorflow_settings, torch_settings
from gpuproof.runtime.framework_settings.precision import FLOAT16, Precision, choose_precision
from gpuproof.runtime.framework_settings.setting import RequestedSettings, Setting, set_variable
from gpuproof.runtime.imported_frameworks import (
    FRAMEWORK_NAMES,
    TENSORFLOW,
    TORCH,
    framework_name,
    imported_frameworks,
    imported_module,
    installed_frameworks,
    load_module,
)
from gpuproof.runtime.stack_probe import read_gpus
from gpuproof.util.log import log_once

# Prefixes of variables that a framework reads only when it is imported or first used.
_OWNERS = {"TF_": TENSORFLOW, "KERAS_": TENSORFLOW, "PYTORCH_": TORCH, "TORCH_": TORCH}
# CUDA_VISIBLE_DEVICES before and after `setup()` narrowed it.
_narrowed_from_to: list[str | None] = []


@dataclass(frozen=True)
class Setup:
    """Report of `setup()`.

    Args:
        not_applied: settings that could not be applied, and why.
    """

    frameworks: tuple[str, ...]
    applied: tuple[Setting, ...]
    not_applied: tuple[Setting, ...]
    precision: Precision

    def __str__(self) -> str:
        lines = [f"  {setting}" for setting in self.applied]
        lines += [f"  not applied: {setting}" for setting in self.not_applied]
        return "\n".join(["setup", *lines, f"  precision {self.precision.dtype}: {self.precision.why}"])

    def autocast(self) -> Any:
        """`torch.autocast` in this precision, for a `with` statement around forward pass and loss; no effect in float32."""
        torch: Any = load_module(TORCH)
        dtype = getattr(torch, self.precision.dtype if self.precision.mixed else "bfloat16")
        return torch.autocast("cuda", dtype=dtype, enabled=self.precision.mixed)

    def grad_scaler(self) -> Any:
        """A `torch.amp.GradScaler`; it scales in float16 and has no effect in other precisions."""
        torch: Any = load_module(TORCH)
        enabled = self.precision.dtype == FLOAT16
        # `torch.amp` has it since 2.3.
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

    It imports only a framework given by `framework`. Settings that a framework reads at its import become environment
    variables, without overriding the user's own. Settings that come too late are in the report and, once, on standard
    error, with file and line of the script. Calling it again with the same settings changes nothing.

    Args:
        memory_growth: let TensorFlow allocate memory on every visible GPU as needed, instead of nearly all of it at
            once. It makes nothing faster, adds no memory and can fragment it, but lets several processes share a GPU and
            the verdict show what the job really needed. PyTorch always allocates as needed.
        visible_devices: indexes, from 0, of the GPUs to use among those that `CUDA_VISIBLE_DEVICES` shows.
        mixed_precision: `auto` (bfloat16 since compute capability 8.0, float16 with loss scaling on 7.x, otherwise
            float32), `bfloat16` or `float16` if the GPU has tensor cores for it, or `None`. It sets Keras's policy; with
            PyTorch use the report's `autocast()` and `grad_scaler()`.
        seed: for the random numbers of Python, NumPy and the framework. `PYTHONHASHSEED` cannot be set at run time.
        threads: CPU threads per operation.
        allocator: `async` (CUDA's stream-ordered allocator), `expandable` (PyTorch's expandable segments), or a value
            for `PYTORCH_CUDA_ALLOC_CONF`.
        variables: environment variables that must be set before the framework is imported, such as
            `TF_ENABLE_ONEDNN_OPTS`.
        framework: `tensorflow` or `torch`, which is imported. By default the frameworks that the script has imported,
            or else those that are installed.

    Raises:
        ValueError: an argument has an invalid value.
    """
    for name, value in (("seed", seed), ("threads", threads)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise ValueError(f"{name}={value!r}: must be a whole number from 0, such as {name}=1")
    if memory_growth not in (True, False):
        raise ValueError(f"memory_growth={memory_growth!r}: must be True or False")
    requested = RequestedSettings(memory_growth, _indexes(visible_devices), seed, threads, allocator)
    if mixed_precision is not None:
        choose_precision(mixed_precision, ())  # reject an invalid value before anything is changed
    names = (
        (framework_name(framework),)
        if framework is not None
        else imported_frameworks() or installed_frameworks()
    )
    results = [_set_early_variable(name, value) for name, value in (variables or {}).items()]
    results += _set_visible_devices(names, requested)
    for name in names:
        results += _apply(name, requested, importing=framework is not None)
    if seed is not None:
        results += _seed_libraries(seed, names)
    precision = Precision()
    if mixed_precision is not None:
        precision = choose_precision(mixed_precision, _capabilities(requested.visible_devices))
        results += _use_precision(precision, mixed_precision)
    report = Setup(
        names,
        tuple(setting for setting in results if setting.problem is None),
        tuple(setting for setting in results if setting.problem is not None),
        precision,
    )
    for setting in report.not_applied:
        log_once(f"setup() could not apply {setting}")
    return report


def _apply(name: str, requested: RequestedSettings, importing: bool) -> Iterator[Setting]:
    settings: Any = tensorflow_settings if name == TENSORFLOW else torch_settings
    if imported_module(name) is None:
        yield from settings.before_import(requested)
        if not importing:
            return
    yield from settings.after_import(load_module(name), requested)


def _set_early_variable(name: str, value: str) -> Setting:
    owner = next((owner for prefix, owner in _OWNERS.items() if name.startswith(prefix)), None)
    if owner is None or imported_module(owner) is None or os.environ.get(name) == value:
        return set_variable(name, value)
    where = find_import(owner)
    above = f" in {where}" if where else ""
    return Setting(
        name,
        value,
        f"{FRAMEWORK_NAMES[owner]} reads it at its import: move setup() ({format_location(*caller())}) above that import{above}",
    )


def _set_visible_devices(names: tuple[str, ...], requested: RequestedSettings) -> Iterator[Setting]:
    """Set `CUDA_VISIBLE_DEVICES` for frameworks that have not read it; imported TensorFlow is configured through its API."""
    if requested.visible_devices is None or (TENSORFLOW in names and imported_module(TENSORFLOW) is not None):
        return
    torch = imported_module(TORCH)
    if torch is not None and torch_settings.cuda_started(torch):
        yield Setting(
            "visible GPUs of PyTorch",
            str(list(requested.visible_devices)),
            f"PyTorch had already used a GPU before setup() in {format_location(*caller())}: move setup() above its first use",
        )
        return
    value = _narrow_visible_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), requested.visible_devices)
    os.environ["CUDA_VISIBLE_DEVICES"] = value
    yield Setting("CUDA_VISIBLE_DEVICES", value)


def _narrow_visible_devices(present: str | None, chosen: tuple[int, ...]) -> str:
    """`CUDA_VISIBLE_DEVICES` for some of the GPUs that it shows; indexes always refer to its original value."""
    if _narrowed_from_to and _narrowed_from_to[-1] == present:
        present = _narrowed_from_to[0]
    shown = present.split(",") if present else None
    if shown is not None and any(index >= len(shown) for index in chosen):
        raise ValueError(
            f"visible_devices={list(chosen)}: CUDA_VISIBLE_DEVICES={present} shows only {len(shown)}"
        )
    value = ",".join(shown[index] if shown is not None else str(index) for index in chosen)
    _narrowed_from_to[:] = [present, value]
    return value


def _seed_libraries(seed: int, names: tuple[str, ...]) -> Iterator[Setting]:
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    for keras in (sys.modules.get("keras"), sys.modules.get("tf_keras")):
        if keras is not None and hasattr(keras, "utils"):
            keras.utils.set_random_seed(seed)
    yield Setting("seed of Python" + (" and NumPy" if numpy is not None else ""), str(seed))
    if names and not imported_frameworks():
        yield Setting("seed of the framework", str(seed), _not_imported_reason(names))


def _use_precision(precision: Precision, wanted: str) -> Iterator[Setting]:
    if not precision.as_asked:
        yield Setting("mixed precision", wanted, precision.why)
    tensorflow = imported_module(TENSORFLOW)
    if tensorflow is not None:
        yield tensorflow_settings.set_policy(tensorflow, precision.dtype)
    elif precision.mixed and imported_module(TORCH) is None and TENSORFLOW in installed_frameworks():
        yield Setting("Keras's dtype policy", precision.dtype, _not_imported_reason((TENSORFLOW,)))


def _not_imported_reason(names: tuple[str, ...]) -> str:
    frameworks = " nor ".join(FRAMEWORK_NAMES[name] for name in names)
    return (
        f"{'neither ' if len(names) > 1 else ''}{frameworks} is {'' if len(names) > 1 else 'not '}imported yet: call setup() "
        f"again after the import, or use setup(framework={next(iter(names))!r})"
    )


def _capabilities(chosen: tuple[int, ...] | None) -> tuple[tuple[int, int], ...]:
    # NVML initializes nothing on the GPU, so it can be used before any framework.
    shown = visible_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), read_gpus())
    tensorflow = imported_module(TENSORFLOW)
    if tensorflow is not None and chosen is not None:
        shown = tuple(gpu for number, gpu in enumerate(shown) if number in chosen)
    found = tuple(gpu.compute_capability for gpu in shown if gpu.compute_capability is not None)
    return found or _torch_capabilities()


def _torch_capabilities() -> tuple[tuple[int, int], ...]:
    """Compute capabilities according to PyTorch, for machines without usable NVML."""
    torch = imported_module(TORCH)
    if torch is None or not torch.cuda.is_available():
        return ()
    found = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
    return tuple((int(major), int(minor)) for major, minor in found)


def _indexes(wanted: Sequence[int] | int | None) -> tuple[int, ...] | None:
    if wanted is None:
        return None
    indexes = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    if isinstance(wanted, bool) or not all(isinstance(index, int) and index >= 0 for index in indexes):
        raise ValueError(f"visible_devices={wanted!r}: must be GPU indexes from 0, such as [0, 1]")
    return indexes
