"""Loading a model: the handler is found and imported, its `model_fn` called, the device checked."""

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
from gpuproof.serve.frameworks.numpy_arrays import Plain
from gpuproof.serve.model import user_errors
from gpuproof.serve.model.context import Context
from gpuproof.serve.model.discovery import CODE, Found, find_handler
from gpuproof.serve.model.hooks import Hook, Hooks, has_tensorflow_handlers, read_hooks
from gpuproof.serve.model.importer import Home, import_handler
from gpuproof.serve.model.interface import Device, Model
from gpuproof.serve.model.requirements import provide
from gpuproof.serve.model.served_model import ServedModel
from gpuproof.serve.model.tracebacks import of_handler
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.device_check import DEFAULT, is_of_keras, look, memory_used, parts_of, place_of

_LOG = logging.getLogger("gpuproof.serve")


def load(folder: Path, settings: Settings, device: Device, name: str) -> Model:
    """See `gpuproof.serve.model.interface.load_model`."""
    folder = folder.absolute()
    with _readable():
        if not folder.is_dir():
            raise LoadError(f"{folder} is no folder: there is no model.")
        found = find_handler(folder, settings)
    if found.file is None:
        _say_passed_over(found)
    packages = provide(found.requirements) if found.requirements is not None and settings.install else None
    home = Home(found.paths if packages is None else (*found.paths, packages))
    try:
        module = import_handler(found, home)
        hooks = read_hooks(module)
        return _load(folder, found, hooks, home, settings, device, name)
    except BaseException:
        home.leave()
        raise


def _load(
    folder: Path, found: Found, hooks: Hooks, home: Home, settings: Settings, device: Device, name: str
) -> Model:
    model_fn = hooks.get("model_fn")
    context = Context(name, str(folder), device, settings.max_batch_size)
    framework: Framework | None = None
    if model_fn is None:
        with _readable():
            kind = _kind_in(folder, found, hooks)
        framework = _framework(kind, settings, device)
    elif home.uses("torch"):
        # The handler has imported it: threads must be set before its first computation.
        framework = _framework("torch", settings, device)
    before = memory_used(device)
    _call(hooks.get("pre_model_fn"), found, "pre_model_fn", str(folder), context=context)
    if model_fn is None:
        assert framework is not None
        model = _by_default(framework, folder)
        loaded_by = DEFAULT
    else:
        model = _call(model_fn, found, "model_fn", str(folder), context=context)
        loaded_by = place_of(model_fn.function)
        if model is None:
            raise LoadError(f"{loaded_by} returned None.", remedy="End it with `return model`.")
        kind = _kind_of_model(model, home)
        if framework is None or framework.name != kind:
            framework = _framework(kind, settings, device)
    own_predict = "predict_fn" in hooks or "transform_fn" in hooks or "batch_fn" in hooks
    model = framework.adopt(model, own_predict, "input_fn" in hooks)
    _say_unheeded(settings, framework)
    placement = look(model, device, loaded_by, before, memory_used(device))
    _call(hooks.get("model_warmup_fn"), found, "model_warmup_fn", str(folder), model, context=context)
    kind_of_model = ServedModel
    if has_tensorflow_handlers(hooks):
        from gpuproof.serve.model.tensorflow_serving import TensorFlowServingModel

        kind_of_model = TensorFlowServingModel
    return kind_of_model(
        name=name,
        folder=str(folder),
        model=model,
        hooks=hooks,
        framework=framework,
        home=home,
        settings=settings,
        device=device,
        placement=placement,
        loaded_by=loaded_by,
    )


@contextmanager
def _readable() -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise LoadError.of(error) from error


def _framework(kind: str, settings: Settings, device: Device) -> Framework:
    """A framework's half, which imports it: only one that is needed."""
    if kind == "torch":
        from gpuproof.serve.frameworks.torch import Torch as Chosen
    elif kind == "tensorflow":
        from gpuproof.serve.frameworks.tensorflow import TensorFlow as Chosen
    else:
        Chosen = Plain  # noqa: N806 - a class, as the other two
    framework = Chosen(settings, device)
    try:
        framework.set_up()
    except ImportError as error:
        raise LoadError(
            f"The model needs {kind}, which cannot be imported here: {error}.", remedy=f"pip install {kind}"
        ) from error
    return framework


def _kind_in(folder: Path, found: Found, hooks: Hooks) -> str:
    """Whose model lies in a folder without a `model_fn`."""
    if not has_tensorflow_handlers(hooks) and (
        (folder / "model.json").is_file() or torch_files.model_files(folder)
    ):
        return "torch"
    if tensorflow_files.choose_model(folder) is not None or has_tensorflow_handlers(hooks):
        return "tensorflow"
    handler = (
        "its handler has no model_fn" if found.file else f"no handler ({' or '.join(map(str, found.looked))})"
    )
    there = sorted(path.name for path in folder.iterdir())[:10]
    raise LoadError(
        f"{folder} holds nothing that can be served: {handler}, no SavedModel (saved_model.pb), no .keras or .h5, and no "
        f".pt, .pth or .pt2 file. It holds {', '.join(there) or 'nothing'}.",
        remedy="Put code/inference.py with a model_fn into it, or one of these models.",
    )


def _by_default(framework: Framework, folder: Path) -> Any:
    try:
        return framework.load(folder)
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(
            f"The model in {folder} cannot be loaded: {type(error).__name__}: {error}",
            remedy=_memory_remedy(error),
            details=of_handler(error),
        ) from error


def _call(hook: Hook | None, found: Found, name: str, *arguments: Any, context: Any) -> Any:
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
            details=of_handler(error),
        ) from error


def _say_passed_over(found: Found) -> None:
    """Code that is there under another name than it is looked for by, as AWS's toolkits pass it over too."""
    names = [path.name for place in found.paths if place.name == CODE for path in sorted(place.glob("*.py"))]
    if names:
        _LOG.warning(
            "%s is not used: the handler is called %s, or what SAGEMAKER_PROGRAM says, as in SAGEMAKER_PROGRAM=%s.",
            ", ".join(names[:5]),
            found.looked[0].name,
            names[0],
        )


def _say_unheeded(settings: Settings, framework: Framework) -> None:
    """A wish for speed that nothing comes of should not pass for granted."""
    if settings.compile and not framework.compiled:
        what = "--cuda-graphs" if settings.cuda_graphs else "--compile"
        _LOG.warning(
            "%s does nothing here: torch.compile takes modules of PyTorch, and no TorchScript.", what
        )
    if settings.autocast and framework.name != "torch":
        _LOG.warning("--autocast does nothing here: it is for models of PyTorch.")


def _memory_remedy(error: BaseException) -> str | None:
    if not user_errors.out_of_memory(error):
        return None
    return (
        "The model does not fit beside what is on the GPU: fewer workers, a lower precision, or a larger GPU."
    )


def _kind_of_model(model: Any, home: Home) -> str:
    """Whose model `model_fn` gave: by what is found in it, else by what the handler has imported."""
    if parts_of(model):
        return "tensorflow" if is_of_keras(model) else "torch"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return "torch"
    if type(model).__module__.partition(".")[0] in ("sklearn", "xgboost", "lightgbm", "catboost"):
        return "none"
    return next((name for name in ("torch", "tensorflow") if home.uses(name)), "none")
