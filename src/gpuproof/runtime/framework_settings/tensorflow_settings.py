"""TensorFlow's settings: environment variables before its import, its API afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Callable

from gpuproof.runtime.call_site import caller, find_first_call, find_import, format_location
from gpuproof.runtime.framework_settings.setting import RequestedSettings, Setting, set_variable

ASYNC = "async"


def before_import(requested: RequestedSettings) -> Iterator[Setting]:
    """Set the variables that TensorFlow reads when it starts."""
    if requested.memory_growth:
        yield set_variable("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if requested.threads is not None:
        yield set_variable("TF_NUM_INTRAOP_THREADS", str(requested.threads))
    if requested.allocator == ASYNC:
        yield set_variable("TF_GPU_ALLOCATOR", "cuda_malloc_async")


def after_import(tensorflow: Any, requested: RequestedSettings) -> Iterator[Setting]:
    """Apply the settings that TensorFlow accepts until its first operation."""
    config = tensorflow.config
    # First, since the other settings apply to the visible GPUs.
    if requested.visible_devices is not None:
        chosen = requested.visible_devices
        yield _apply_setting("visible GPUs", str(list(chosen)), lambda: _set_visible(config, chosen))
    if requested.memory_growth and config.get_visible_devices("GPU"):
        yield _apply_setting("memory growth", "on", lambda: _enable_growth(config))
    if requested.threads is not None:
        threads = requested.threads
        yield _apply_setting(
            "threads", str(threads), lambda: config.threading.set_intra_op_parallelism_threads(threads)
        )
    if requested.allocator == ASYNC:
        yield (
            set_variable("TF_GPU_ALLOCATOR", "cuda_malloc_async")
            if not _has_initialized()
            else _too_late("TF_GPU_ALLOCATOR", "cuda_malloc_async")
        )
    if requested.seed is not None:
        tensorflow.random.set_seed(requested.seed)
        yield Setting("seed of TensorFlow", str(requested.seed))


def set_policy(tensorflow: Any, dtype: str) -> Setting:
    """Set Keras's dtype policy for new layers; compiled models scale the loss with float16.

    Args:
        dtype: `bfloat16`, `float16` or `float32`.
    """
    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    families = [module for name in ("keras", "tf_keras") if (module := sys.modules.get(name)) is not None]
    for keras in families or [tensorflow.keras]:
        keras.mixed_precision.set_global_policy(policy)
    return Setting("Keras's dtype policy", policy)


def _apply_setting(setting: str, value: str, change: Callable[[], None]) -> Setting:
    try:
        change()
    except RuntimeError as error:
        if "initializ" not in str(error):
            return Setting(f"{setting} of TensorFlow", value, str(error))
        return _too_late(f"{setting} of TensorFlow", value)
    except ValueError as error:
        return Setting(f"{setting} of TensorFlow", value, str(error))
    return Setting(f"{setting} of TensorFlow", value)


def _too_late(setting: str, value: str) -> Setting:
    file, line = caller()
    here = format_location(file, line)
    first_call = find_first_call("tensorflow", file, line) or find_first_call("keras", file, line)
    where = find_import("tensorflow") or find_import("keras")
    early = f"; the first call above is {first_call}" if first_call else ""
    after = f", right after the import in {where}" if where else ""
    return Setting(
        setting,
        value,
        f"TensorFlow had already initialized its devices before setup() in {here}{early}. Move setup() above the first operation, "
        f"model or strategy{after}",
    )


def _set_visible(config: Any, chosen: tuple[int, ...]) -> None:
    gpus = config.list_physical_devices("GPU")
    missing = [index for index in chosen if index >= len(gpus)]
    if missing:
        raise ValueError(f"there is no GPU {missing[0]}: TensorFlow sees {len(gpus)}")
    config.set_visible_devices([gpus[index] for index in chosen], "GPU")


def _enable_growth(config: Any) -> None:
    # For all of them: TensorFlow does not start if growth differs between visible GPUs.
    for gpu in config.get_visible_devices("GPU"):
        config.experimental.set_memory_growth(gpu, True)


def _has_initialized() -> bool:
    """Whether TensorFlow has initialized its devices, which its public API does not expose."""
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    context = module.context_safe() if module is not None and hasattr(module, "context_safe") else None
    return bool(getattr(context, "_initialized", False))
