"""Loads a model: finds and imports the handler, calls its `model_fn` and checks the device."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuproof.serve.errors import LoadError
from gpuproof.serve.frameworks import tensorflow_files, torch_files
from gpuproof.serve.frameworks.base import Framework
from gpuproof.serve.frameworks.device_check import (
    DEFAULT,
    check_device,
    describe_location,
    find_model_parts,
    is_tensorflow,
    memory_used,
)
from gpuproof.serve.frameworks.numpy_arrays import NumPy
from gpuproof.serve.interface import Device, Model
from gpuproof.serve.model import user_errors
from gpuproof.serve.model.context import Context
from gpuproof.serve.model.discovery import CODE, HandlerLocation, find_handler
from gpuproof.serve.model.hooks import Hook, Hooks, has_tensorflow_handlers, read_hooks
from gpuproof.serve.model.importer import HandlerModules, import_handler
from gpuproof.serve.model.requirements import install_missing
from gpuproof.serve.model.served_model import ServedModel
from gpuproof.serve.model.tracebacks import format_handler_traceback
from gpuproof.serve.settings import Settings

_LOG = logging.getLogger("gpuproof.serve")


def load_model(folder: Path, settings: Settings, device: Device, name: str = "model") -> Model:
    """Find the handler of a model folder, import it and call its `model_fn`.

    Args:
        folder: the model's folder, `/opt/ml/model` in a container.
        device: the device to use; `CUDA_VISIBLE_DEVICES` must be set before.

    Raises:
        LoadError: there is nothing to serve, or the handler failed; includes its traceback.
    """
    folder = folder.absolute()
    with _readable_files():
        if not folder.is_dir():
            raise LoadError(f"{folder} is not a folder.")
        found = find_handler(folder, settings)
    if found.file is None:
        _warn_unused_code(found)
    packages = (
        install_missing(found.requirements, found.paths)
        if found.requirements is not None and settings.install
        else None
    )
    modules = HandlerModules(found.paths if packages is None else (*found.paths, packages))
    try:
        module = import_handler(found, modules)
        hooks = read_hooks(module)
        return _load_with(folder, found, hooks, modules, settings, device, name)
    except BaseException:
        modules.deactivate()
        raise


def _load_with(
    folder: Path,
    found: HandlerLocation,
    hooks: Hooks,
    modules: HandlerModules,
    settings: Settings,
    device: Device,
    name: str,
) -> Model:
    model_fn = hooks.get("model_fn")
    context = Context(name, str(folder), device, settings.max_batch_size)
    framework: Framework | None = None
    if model_fn is None:
        with _readable_files():
            kind = _framework_of_folder(folder, found, hooks)
        framework = _set_up_framework(kind, settings, device)
    elif modules.uses("torch"):
        # The handler has imported it: the number of threads must be set before the first computation.
        framework = _set_up_framework("torch", settings, device)
    before = memory_used(device)
    _call_hook(hooks.get("pre_model_fn"), found, "pre_model_fn", str(folder), context=context)
    if model_fn is None:
        assert framework is not None
        model = _default_model(framework, folder)
        loaded_by = DEFAULT
    else:
        model = _call_hook(model_fn, found, "model_fn", str(folder), context=context)
        loaded_by = describe_location(model_fn.function)
        if model is None:
            raise LoadError(f"{loaded_by} returned None.", remedy="Return the model at the end of model_fn.")
        kind = _framework_of_model(model, modules)
        if framework is None or framework.name != kind:
            framework = _set_up_framework(kind, settings, device)
    own_predict = "predict_fn" in hooks or "transform_fn" in hooks or "batch_fn" in hooks
    model = framework.prepare(model, own_predict, "input_fn" in hooks)
    _warn_ignored_settings(settings, framework)
    device_report = check_device(model, device, loaded_by, before, memory_used(device))
    _call_hook(hooks.get("model_warmup_fn"), found, "model_warmup_fn", str(folder), model, context=context)
    model_class = ServedModel
    if has_tensorflow_handlers(hooks):
        from gpuproof.serve.model.tensorflow_serving import TensorFlowServingModel

        model_class = TensorFlowServingModel
    return model_class(
        name=name,
        folder=str(folder),
        model=model,
        hooks=hooks,
        framework=framework,
        modules=modules,
        settings=settings,
        device=device,
        device_report=device_report,
        loaded_by=loaded_by,
    )


@contextmanager
def _readable_files() -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise LoadError.of(error) from error


def _set_up_framework(kind: str, settings: Settings, device: Device) -> Framework:
    """Import and set up a framework, only if the model needs it."""
    if kind == "torch":
        from gpuproof.serve.frameworks.torch import Torch as Chosen
    elif kind == "tensorflow":
        from gpuproof.serve.frameworks.tensorflow import TensorFlow as Chosen
    else:
        Chosen = NumPy  # noqa: N806 - a class
    framework = Chosen(settings, device)
    try:
        framework.set_up()
    except ImportError as error:
        raise LoadError(
            f"The model needs {kind}, which cannot be imported: {error}.", remedy=f"pip install {kind}"
        ) from error
    return framework


def _framework_of_folder(folder: Path, found: HandlerLocation, hooks: Hooks) -> str:
    """The framework of the model in a folder without a `model_fn`."""
    if not has_tensorflow_handlers(hooks) and (
        (folder / "model.json").is_file() or torch_files.model_files(folder)
    ):
        return "torch"
    if tensorflow_files.choose_model(folder) is not None or has_tensorflow_handlers(hooks):
        return "tensorflow"
    handler = (
        "its handler has no model_fn"
        if found.file
        else f"no handler ({' or '.join(map(str, found.searched))})"
    )
    there = sorted(path.name for path in folder.iterdir())[:10]
    raise LoadError(
        f"{folder} contains nothing that can be served: {handler}, no SavedModel (saved_model.pb), no .keras or .h5, and no "
        f".pt, .pth or .pt2 file. It contains {', '.join(there) or 'nothing'}.",
        remedy="Add code/inference.py with a model_fn, or one of these models.",
    )


def _default_model(framework: Framework, folder: Path) -> Any:
    try:
        return framework.load(folder)
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(
            f"The model in {folder} cannot be loaded: {type(error).__name__}: {error}",
            remedy=_memory_remedy(error),
            details=format_handler_traceback(error),
            headline=f"The model in {folder} cannot be loaded:",
        ) from error


def _call_hook(hook: Hook | None, found: HandlerLocation, name: str, *arguments: Any, context: Any) -> Any:
    if hook is None:
        return None
    try:
        return hook(*arguments, context=context)
    except LoadError:
        raise
    except (Exception, SystemExit) as error:
        raise LoadError(
            f"{name} of {found.file} raised {type(error).__name__}: {error}",
            remedy=_memory_remedy(error),
            details=format_handler_traceback(error),
            headline=f"{name} of {found.file} failed:",
        ) from error


def _warn_unused_code(found: HandlerLocation) -> None:
    """Warn about Python files in `code/` that are not the handler because of their names, as in AWS's toolkits."""
    names = [path.name for place in found.paths if place.name == CODE for path in sorted(place.glob("*.py"))]
    if names:
        _LOG.warning(
            "%s is not used: the handler must be named %s, or be selected with SAGEMAKER_PROGRAM=%s.",
            ", ".join(names[:5]),
            found.searched[0].name,
            names[0],
        )


def _warn_ignored_settings(settings: Settings, framework: Framework) -> None:
    """Warn about performance settings that have no effect for this model."""
    if settings.compile and not framework.compiled:
        what = "--cuda-graphs" if settings.cuda_graphs else "--compile"
        _LOG.warning("%s has no effect: torch.compile supports only PyTorch modules, not TorchScript.", what)
    if settings.autocast and framework.name != "torch":
        _LOG.warning("--autocast has no effect: it supports only PyTorch models.")


def _memory_remedy(error: BaseException) -> str | None:
    if not user_errors.is_out_of_memory(error):
        return None
    if user_errors.is_out_of_host_memory(error):
        return "The model does not fit into the free memory: use fewer workers, a lower precision or a larger instance."
    return "The model does not fit into the free GPU memory: use fewer workers, a lower precision or a larger GPU."


def _framework_of_model(model: Any, modules: HandlerModules) -> str:
    """The framework of the model that `model_fn` returned, by its parameters, or else by the handler's imports."""
    if find_model_parts(model):
        return "tensorflow" if is_tensorflow(model) else "torch"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return "torch"
    if type(model).__module__.partition(".")[0] in ("sklearn", "xgboost", "lightgbm", "catboost"):
        return "none"
    return next((name for name in ("torch", "tensorflow") if modules.uses(name)), "none")
