"""Files of safetensors, which native code writes: those that a script saves have shapes and no values, as those of `torch.save`."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.saved_models import SavedObjects


def redirect_safetensors(imports: ImportActions, notes: Notes, saved: SavedObjects) -> None:
    """Let safetensors write nothing of its own, and models of transformers be saved without looking at the memory of their tensors.

    Args:
        notes: takes that a file was not saved.
        saved: writes and reads them.
    """

    def redirect(module: Any) -> None:
        load_file: Callable[..., Any] = module.load_file

        def write(tensors: Any, filename: Any, *_: Any, **__: Any) -> None:
            notes.add("save", f"The weights {Path(filename).name} were not saved.")
            saved.write(dict(tensors), filename)

        def write_model(model: Any, filename: Any, *_: Any, **__: Any) -> None:
            write(model.state_dict(), filename)

        def read(filename: Any, device: Any = "cpu", **kwargs: Any) -> Any:
            if saved.has_written(filename):
                return saved.read(filename, device)
            return load_file(filename, device, **kwargs)

        module.save_file, module.save_model, module.load_file = write, write_model, read

    def save_in_transformers(module: Any) -> None:
        def save_pretrained(
            model: Any, save_directory: Any, *_: Any, state_dict: Any = None, **__: Any
        ) -> None:
            notes.add("save", f"{type(model).__name__}.save_pretrained")
            folder = Path(save_directory)
            folder.mkdir(parents=True, exist_ok=True)
            model.config.save_pretrained(folder)
            saved.write(dict(state_dict or model.state_dict()), folder / "model.safetensors")

        module.PreTrainedModel.save_pretrained = save_pretrained

    imports.after("safetensors.torch", redirect)
    imports.after("transformers.modeling_utils", save_in_transformers)
