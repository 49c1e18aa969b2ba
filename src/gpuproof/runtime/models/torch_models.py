"""Saves and loads PyTorch models: weights, class and arguments, and a loader for serving."""

from __future__ import annotations

import copy
import importlib.util
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.runtime.contract import paths
from gpuproof.runtime.imported_frameworks import TORCH, load_module
from gpuproof.runtime.models import torch_inference
from gpuproof.util.log import log

MANIFEST = "model.json"
WEIGHTS = "model.pth"
EXPORTED = "model.pt2"
CODE = "code"
_LOADER = "inference.py"


def save(model: Any, folder: Path, arguments: Mapping[str, Any], example: Any) -> None:
    """Write the model's files."""
    torch: Any = load_module(TORCH)
    model = unwrap(model)
    state = {name: _on_cpu(torch, value) for name, value in model.state_dict().items()}
    torch.save(state, folder / WEIGHTS)
    manifest: dict[str, Any] = {"version": 1, "weights": WEIGHTS, "torch": str(torch.__version__)}
    exported = example is not None and _export(torch, model, folder / EXPORTED, example)
    if exported:
        manifest["exported"] = EXPORTED
    module, problem = _importable_module(type(model))
    problem = problem or _rebuild_problem(torch, type(model), arguments, state)
    if problem is None:
        manifest.update({"class": f"{module}:{type(model).__qualname__}", "arguments": dict(arguments)})
    elif not exported:
        log(f"the weights were saved, but the model cannot be built from its class: {problem}")
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    _write_code(folder / CODE)


def load(folder: Path) -> Any:
    """Load the model, on the CPU, in evaluation mode."""
    code = str(folder / CODE)
    sys.path.insert(0, code)
    try:
        return torch_inference.load_on("cpu", folder)
    finally:
        sys.path.remove(code)


def unwrap(model: Any) -> Any:
    """Return the user's model without `DistributedDataParallel` and `torch.compile`."""
    while True:
        name = type(model).__name__
        if name in ("DistributedDataParallel", "DataParallel"):
            model = model.module
        elif name == "OptimizedModule":
            model = model._orig_mod  # noqa: SLF001 - PyTorch has no public name for it
        else:
            return model


def _on_cpu(torch: Any, value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def _export(torch: Any, model: Any, path: Path, example: Any) -> bool:
    """Export the computation for any batch size; returns whether it succeeded."""
    inputs = example if isinstance(example, tuple) else (example,)
    # A batch of one would be treated as a constant.
    inputs = tuple(_at_least_two(torch, value) for value in inputs)
    still = copy.deepcopy(model).cpu().eval()
    try:
        batch = torch.export.Dim("batch")
        shapes = tuple({0: batch} if isinstance(value, torch.Tensor) else None for value in inputs)
        torch.export.save(torch.export.export(still, inputs, dynamic_shapes=shapes), path)
    except Exception as error:  # noqa: BLE001 - the weights are saved anyway
        log(f"the model cannot be exported with this example ({EXPORTED}): {type(error).__name__}: {error}")
        return False
    return True


def _at_least_two(torch: Any, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu()
    return torch.cat([value, value]) if value.dim() > 0 and value.shape[0] == 1 else value


def _importable_module(cls: type) -> tuple[str, str | None]:
    """Module from which the class can be imported, and why it cannot."""
    if "<locals>" in cls.__qualname__:
        return "", f"{cls.__name__} is defined inside a function; move it to the top level of a module"
    if cls.__module__ != "__main__":
        return cls.__module__, None
    script = Path(getattr(sys.modules["__main__"], "__file__", None) or "-")
    if not script.is_file():
        return "", f"{cls.__name__} is not defined in a file; move it into a module"
    if "__name__" not in script.read_text(encoding="utf-8", errors="replace"):
        return "", (
            f"{cls.__name__} is defined in {script.name}, which trains when it is imported; "
            "move it into its own module, or save(model, example=...)"
        )
    return script.stem, None


def _rebuild_problem(
    torch: Any, cls: type, arguments: Mapping[str, Any], state: Mapping[str, Any]
) -> str | None:
    call = f"{cls.__name__}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    hint = "pass its arguments, as in save(model, arguments={...}), or use save(model, example=...)"
    try:
        json.dumps(dict(arguments))
        # On "meta" nothing is allocated.
        with torch.device("meta"):
            built = cls(**arguments).state_dict()
    except Exception as error:  # noqa: BLE001 - every failure means the same
        return f"{call} fails with {type(error).__name__}: {error}; {hint}"
    differing = [
        name
        for name in {**built, **state}
        if getattr(built.get(name), "shape", None) != getattr(state.get(name), "shape", None)
    ]
    return f"{call} has other weights ({', '.join(sorted(differing)[:3])}); {hint}" if differing else None


def _write_code(folder: Path) -> None:
    """Copy the script's own modules, and write the loader unless the script has one."""
    folder.mkdir()
    home = paths.code.resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or "site-packages" in file:
            continue
        path = Path(file).resolve()
        if home in path.parents and path.is_file():
            target = folder / path.relative_to(home)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    own = home / _LOADER
    if own.is_file():
        shutil.copyfile(own, folder / _LOADER)
        return
    (folder / _LOADER).write_text(_module_source(torch_inference.__name__), encoding="utf-8")


def _module_source(module: str) -> str:
    """Source of a module, also from within the agent's archive."""
    spec = importlib.util.find_spec(module)
    loader: Any = spec.loader if spec is not None else None
    return str(loader.get_source(module))
