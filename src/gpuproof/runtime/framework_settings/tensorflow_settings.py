"""TensorFlow's settings: through its API where it is imported, through the environment where it is not yet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Callable

from gpuproof.runtime.call_site import caller, first_use, imported_at, place
from gpuproof.runtime.framework_settings.setting import Outcome, Wishes, put_variable

ASYNC = "async"


def before_import(wishes: Wishes) -> Iterator[Outcome]:
    """What TensorFlow reads from the environment when it starts."""
    if wishes.memory_growth:
        yield put_variable("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    if wishes.threads is not None:
        yield put_variable("TF_NUM_INTRAOP_THREADS", str(wishes.threads))
    if wishes.allocator == ASYNC:
        yield put_variable("TF_GPU_ALLOCATOR", "cuda_malloc_async")


def after_import(tensorflow: Any, wishes: Wishes) -> Iterator[Outcome]:
    """What TensorFlow still takes, as long as it has run no operation."""
    config = tensorflow.config
    # First of all: what follows is said of the visible GPUs.
    if wishes.visible_devices is not None:
        chosen = wishes.visible_devices
        yield _attempt("visible GPUs", str(list(chosen)), lambda: _show(config, chosen))
    if wishes.memory_growth and config.get_visible_devices("GPU"):
        yield _attempt("memory growth", "on", lambda: _grow(config))
    if wishes.threads is not None:
        threads = wishes.threads
        yield _attempt(
            "threads", str(threads), lambda: config.threading.set_intra_op_parallelism_threads(threads)
        )
    if wishes.allocator == ASYNC:
        yield (
            put_variable("TF_GPU_ALLOCATOR", "cuda_malloc_async")
            if not _started()
            else _late("TF_GPU_ALLOCATOR", "cuda_malloc_async")
        )
    if wishes.seed is not None:
        tensorflow.random.set_seed(wishes.seed)
        yield Outcome("seed of TensorFlow", str(wishes.seed))


def set_policy(tensorflow: Any, dtype: str) -> Outcome:
    """Keras's mixed precision for every layer that is made from now on; compiled models scale float16's loss.

    Args:
        dtype: `bfloat16`, `float16` or `float32`.
    """
    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    families = [module for name in ("keras", "tf_keras") if (module := sys.modules.get(name)) is not None]
    for keras in families or [tensorflow.keras]:
        keras.mixed_precision.set_global_policy(policy)
    return Outcome("Keras's dtype policy", policy)


def _attempt(setting: str, value: str, change: Callable[[], None]) -> Outcome:
    try:
        change()
    except RuntimeError as error:
        if "initializ" not in str(error):
            return Outcome(f"{setting} of TensorFlow", value, str(error))
        return _late(f"{setting} of TensorFlow", value)
    except ValueError as error:
        return Outcome(f"{setting} of TensorFlow", value, str(error))
    return Outcome(f"{setting} of TensorFlow", value)


def _late(setting: str, value: str) -> Outcome:
    file, line = caller()
    here = place(file, line)
    seen = first_use("tensorflow", file, line) or first_use("keras", file, line)
    where = imported_at("tensorflow") or imported_at("keras")
    early = f"; the first use of it above is {seen}" if seen else ""
    after = f", right after the import in {where}" if where else ""
    return Outcome(
        setting,
        value,
        f"TensorFlow had already started when {here} asked for it{early}. Move setup() above the first operation, "
        f"model or strategy{after}",
    )


def _show(config: Any, chosen: tuple[int, ...]) -> None:
    gpus = config.list_physical_devices("GPU")
    missing = [index for index in chosen if index >= len(gpus)]
    if missing:
        raise ValueError(f"there is no GPU {missing[0]}: TensorFlow sees {len(gpus)}")
    config.set_visible_devices([gpus[index] for index in chosen], "GPU")


def _grow(config: Any) -> None:
    # On all of them: TensorFlow refuses to start where growth differs between visible GPUs.
    for gpu in config.get_visible_devices("GPU"):
        config.experimental.set_memory_growth(gpu, True)


def _started() -> bool:
    """Whether TensorFlow has made its devices; its public API does not tell."""
    module: Any = sys.modules.get("tensorflow.python.eager.context")
    context = module.context_safe() if module is not None and hasattr(module, "context_safe") else None
    return bool(getattr(context, "_initialized", False))
