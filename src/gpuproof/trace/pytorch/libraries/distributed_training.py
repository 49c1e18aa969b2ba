"""Parts of `torch.distributed` above collectives: checkpoints are not written, and what splits single layers is an error."""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes

_SAVING = ("save", "async_save", "save_state_dict")
_LOADING = ("load", "load_state_dict")


def replace_distributed_training(imports: ImportActions, notes: Notes) -> None:
    """Act when a script imports `torch.distributed.checkpoint`, `torch.distributed.tensor.parallel` or Accelerate.

    Args:
        notes: takes what is not saved or loaded.
    """

    def not_done(name: str, code: str) -> Any:
        def call(*_: Any, **__: Any) -> None:
            notes.add(code, f"torch.distributed.checkpoint.{name}")

        return call

    def replace_checkpoints(module: Any) -> None:
        for names, code in ((_SAVING, "save"), (_LOADING, "weights")):
            for name in names:
                if hasattr(module, name):
                    setattr(module, name, not_done(name, code))

    def replace_states(module: Any) -> None:
        """The state of the whole model is here."""
        module.get_model_state_dict = lambda model, **_: model.state_dict()
        module.get_optimizer_state_dict = lambda model, optimizers, **_: _state_of(optimizers)
        module.get_state_dict = lambda model, optimizers, **_: (model.state_dict(), _state_of(optimizers))
        for name in ("set_model_state_dict", "set_optimizer_state_dict", "set_state_dict"):
            setattr(module, name, not_done(f"state_dict.{name}", "weights"))

    def reject_layers(module: Any) -> None:
        module.parallelize_module = _parallelize

    def keep_shapes(module: Any) -> None:
        """Other processes have tensors of the same shapes: Accelerate would ask for them on the GPU, where no process has them."""
        module.Accelerator.pad_across_processes = lambda _, tensor, *__, **___: tensor

    imports.after("accelerate.accelerator", keep_shapes)
    imports.after("torch.distributed.checkpoint", replace_checkpoints)
    imports.after("torch.distributed.checkpoint.state_dict", replace_states)
    imports.after("torch.distributed.tensor.parallel", reject_layers)


def _state_of(optimizers: Any) -> Any:
    first = optimizers[0] if isinstance(optimizers, (list, tuple)) else optimizers
    return first.state_dict()


def _parallelize(*_: Any, **__: Any) -> None:
    raise CannotTrace(
        "tensor-parallel",
        "The script splits single layers over several GPUs (parallelize_module), which cannot be traced.",
        "Plan it with FSDP (fully_shard), or on one GPU without the split.",
    )
