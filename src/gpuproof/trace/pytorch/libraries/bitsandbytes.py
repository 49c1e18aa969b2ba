"""Optimizers and linear layers of bitsandbytes with the memory of their states and weights."""

from __future__ import annotations

from math import ceil
from typing import Any

import torch

from gpuproof.trace.failures import CannotTrace
from gpuproof.trace.imports import ImportActions
from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.libraries.quantized_layers import QuantizedLinear

_BLOCK, _LEAST = 256, 4096
"""Numbers that share a factor in float32, and the fewest that are kept in 8 bits.

Source: https://huggingface.co/docs/bitsandbytes/main/en/optimizers (`min_8bit_size`, block-wise quantization).
"""
_STATES = {
    "Adam": 2,
    "AdamW": 2,
    "Lion": 1,
    "SGD": 1,
    "RMSprop": 1,
    "Adagrad": 1,
    "LAMB": 2,
    "LARS": 1,
    "AdEMAMix": 3,
}
_PAGED = ("Adam", "AdamW", "Lion", "AdEMAMix")
_LINEAR = {"Linear8bitLt": 8, "Linear4bit": 4, "LinearNF4": 4, "LinearFP4": 4}
_OTHERS = ("Int8Params", "Params4bit", "Embedding8bit", "Embedding4bit")


def replace_bitsandbytes(imports: ImportActions, notes: Notes) -> None:
    """Import these optimizers in place of bitsandbytes.

    Args:
        notes: takes that they were used.
    """

    def fill_optimizers(module: Any) -> None:
        for name, states in _STATES.items():
            for prefix in ("", *(["Paged"] if name in _PAGED else [])):
                for suffix, bits in (("", None), ("8bit", 8), ("32bit", 32)):
                    full = f"{prefix}{name}{suffix}"
                    setattr(module, full, _optimizer(notes, full, states, bits))
        module.GlobalOptimManager = _Manager

    def fill_layers(module: Any) -> None:
        for name, bits in _LINEAR.items():
            setattr(module, name, _linear(notes, name, bits))
        for name in _OTHERS:
            setattr(module, name, _not_planned(name))

    def fill(module: Any) -> None:
        import importlib

        module.__version__ = "0.49.0"
        for name in ("optim", "nn"):
            setattr(module, name, importlib.import_module(f"bitsandbytes.{name}"))

    imports.replace("bitsandbytes", fill)
    imports.replace("bitsandbytes.optim", fill_optimizers)
    imports.replace("bitsandbytes.nn", fill_layers)


class _Manager:
    """Chooses the bits of single parameters, all of which stay as they are here."""

    @classmethod
    def get_instance(cls) -> _Manager:
        """The only one."""
        return cls()

    def register_module_override(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    register_parameters = override_config = register_module_override


def _optimizer(notes: Notes, name: str, states: int, bits: int | None) -> Any:
    class Optimizer(torch.optim.Optimizer):
        def __init__(
            self, params: Any, lr: float = 1e-3, *_: Any, optim_bits: int = 32, **options: Any
        ) -> None:
            self._bits = bits or optim_bits
            self._least = options.get("min_8bit_size", _LEAST)
            super().__init__(params, {"lr": lr, "weight_decay": options.get("weight_decay", 0.0)})
            notes.add(
                "kernels",
                f"{name} of bitsandbytes was traced with the memory of its {self._bits}-bit states.",
            )

        @torch.no_grad()
        def step(self, closure: Any = None) -> Any:
            """Allocate the states at the first step; update each parameter by one kernel."""
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        if parameter not in self.state:
                            self.state[parameter] = _made(parameter, states, self._bits, self._least)
                        parameter.add_(parameter.grad, alpha=-1.0)
            return loss

    Optimizer.__name__ = Optimizer.__qualname__ = name
    return Optimizer


def _made(parameter: Any, states: int, bits: int, least: int) -> dict[str, Any]:
    small = bits == 32 or parameter.numel() < least
    found: dict[str, Any] = {}
    for index in range(1, states + 1):
        found[f"state{index}"] = torch.zeros_like(parameter, dtype=torch.float32 if small else torch.uint8)
        if not small:
            count = ceil(parameter.numel() / _BLOCK)
            found[f"absmax{index}"] = torch.zeros(count, dtype=torch.float32, device=parameter.device)
    return found


def _linear(notes: Notes, name: str, bits: int) -> Any:
    def init(
        self: Any,
        input_features: int,
        output_features: int,
        bias: bool = True,
        compute_dtype: Any = None,
        compress_statistics: bool = True,
        *_: Any,
        device: Any = None,
        **__: Any,
    ) -> None:
        note_quantized_layers(notes, bits)
        QuantizedLinear.__init__(
            self,
            input_features,
            output_features,
            bias,
            bits=bits,
            compute_dtype=compute_dtype if bits == 4 else None,
            compress_statistics=compress_statistics is True,
            device=device,
        )

    return type(name, (QuantizedLinear,), {"__init__": init})


def note_quantized_layers(notes: Notes, bits: int) -> None:
    """Note how linear layers of bitsandbytes are traced."""
    notes.add(
        "kernels",
        f"Linear layers of bitsandbytes were traced with {bits}-bit weights, which are made larger for each product.",
    )


def _not_planned(name: str) -> Any:
    def init(self: Any, *_: Any, **__: Any) -> None:
        raise CannotTrace(
            "quantization",
            f"bitsandbytes.nn.{name} has quantized weights, which are planned for linear layers only.",
            "Use torch.nn.Embedding for an upper bound.",
        )

    return type(name, (torch.nn.Module,), {"__init__": init})
