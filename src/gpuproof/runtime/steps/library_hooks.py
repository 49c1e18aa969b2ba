"""Hooks of libraries that run the loop for the script: Hugging Face's Trainer and Accelerate, Lightning, safetensors.

The hooks of PyTorch see their batches, passes and optimizers; these add what the libraries call evaluation and checkpoint.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from gpuproof.runtime.steps.location import add_library
from gpuproof.runtime.steps.recorder import Recorder
from gpuproof.runtime.steps.torch_transfers import replace_checkpoint, replace_timed

_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def install(module: ModuleType, recorder: Recorder) -> None:
    """Replace methods of a library's module that has just been imported."""
    package = module.__name__.partition(".")[0]
    add_library(getattr(sys.modules[package], "__file__", None))
    if module.__name__ == "transformers.trainer":
        _trainer(module, recorder)
    elif module.__name__ == "transformers.modeling_utils":
        replace_checkpoint(recorder, module.PreTrainedModel, "save_pretrained", "save_pretrained()")
    elif module.__name__ == "accelerate.accelerator":
        _accelerator(module, recorder)
    elif module.__name__ == "safetensors.torch":
        for name in ("save_file", "save_model"):
            replace_checkpoint(recorder, module, name, f"safetensors.torch.{name}()")
    elif module.__name__.startswith(_LIGHTNING):
        _lightning(module, recorder)


def _trainer(module: Any, recorder: Recorder) -> None:
    trainer = module.Trainer
    _name_loop(recorder, trainer, "train", "transformers")
    for name in ("evaluate", "predict"):
        replace_timed(recorder, trainer, name, "evaluation", f"Trainer.{name}()")
    for name in ("_save_checkpoint", "save_model"):
        replace_checkpoint(recorder, trainer, name, "Trainer.save_model()")
    if hasattr(trainer, "floating_point_ops"):
        _count_flops(recorder, trainer)


def _count_flops(recorder: Recorder, trainer: Any) -> None:
    """Take over the Trainer's own count of FLOPs, which it makes for each batch before the optimizer's step."""
    original = trainer.floating_point_ops
    counted: dict[str, float] = {}

    def note(self: Any, flops: Any) -> None:
        step = self.state.global_step
        first = counted.setdefault("first", step)
        counted["flops"] = counted.get("flops", 0.0) + float(flops)
        if counted["flops"] > 0:
            recorder.flops_per_step = counted["flops"] / (step + 1 - first)
            recorder.flops_source = "transformers"
            recorder.precision = _trainer_precision(self)

    @functools.wraps(original)
    def floating_point_ops(self: Any, inputs: Any) -> Any:
        flops = original(self, inputs)
        recorder.guard("Trainer.floating_point_ops()", note, self, flops)
        return flops

    trainer.floating_point_ops = floating_point_ops


def _trainer_precision(trainer: Any) -> str:
    """The precision of autocast, or else of the model's parameters."""
    arguments = trainer.args
    if getattr(arguments, "bf16", False):
        return "bfloat16"
    if getattr(arguments, "fp16", False):
        return "float16"
    name = str(getattr(trainer.model, "dtype", "")).rpartition(".")[2]
    return "tf32" if name == "float32" and getattr(arguments, "tf32", None) else name


def _accelerator(module: Any, recorder: Recorder) -> None:
    accelerator = module.Accelerator
    _name_loop(recorder, accelerator, "backward", "accelerate", only_of=("", "pytorch"))
    for name in ("save_state", "save_model"):
        replace_checkpoint(recorder, accelerator, name, f"Accelerator.{name}()")


def _lightning(module: Any, recorder: Recorder) -> None:
    _name_loop(recorder, module.Trainer, "fit", "lightning")
    replace_checkpoint(recorder, module.Trainer, "save_checkpoint", "Trainer.save_checkpoint()")
    for name in ("_EvaluationLoop", "_PredictionLoop", "EvaluationLoop", "PredictionLoop"):
        loop_class = getattr(module, name, None)
        if loop_class is not None:
            replace_timed(recorder, loop_class, "run", "evaluation", "Trainer.validate()")


def _name_loop(
    recorder: Recorder, owner: Any, method: str, loop: str, only_of: tuple[str, ...] | None = None
) -> None:
    original = getattr(owner, method)

    @functools.wraps(original)
    def named(*args: Any, **kwargs: Any) -> Any:
        if only_of is None or recorder.loop in only_of:
            recorder.loop = loop
            # Accelerate begins autocast within the model's call.
            if getattr(args[0], "mixed_precision", "no") != "no":
                recorder.precision = str(args[0].mixed_precision)
        return original(*args, **kwargs)

    setattr(owner, method, named)
