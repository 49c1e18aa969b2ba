"""What a training loop does to its parameters: which get gradients, and which of these an optimizer changes."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpuproof.trace.document import Note
from gpuproof.trace.notes import user_line

DETACHED, UNUSED, NOT_OPTIMIZED = "detached-loss", "no-gradient", "not-in-optimizer"
"""No parameter of an optimizer gets a gradient; some of them get none; others get gradients and are in no optimizer."""
_NAMED = 3

_Place = tuple[Any, Any]


class TrainedParameters:
    """Parameters and gradients at each step of an optimizer.

    Args:
        is_on_gpu: knows which parameters are.
        models: returns the modules that the script has called.
    """

    def __init__(self, is_on_gpu: Callable[[Any], bool], models: Callable[[], Iterable[Any]]) -> None:
        self._is_on_gpu, self._models = is_on_gpu, models
        self._created: dict[int, _Place] = {}
        self._steps: dict[int, _Place] = {}
        self._optimized: dict[int, tuple[int, Any]] = {}
        """Of each parameter, its optimizer."""
        self._with_gradient: dict[int, Any] = {}

    def created(self, optimizer: Any) -> None:
        """An optimizer was created."""
        self._created.setdefault(id(optimizer), user_line())
        self._add(optimizer)

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to make a step: what the backward pass has computed is there."""
        self._steps.setdefault(id(optimizer), user_line())
        self._add(optimizer)
        models = (parameter for model in self._models() for parameter in model.parameters())
        for parameter in (*models, *(parameter for _, parameter in self._optimized.values())):
            if parameter.grad is not None:
                self._with_gradient[id(parameter)] = parameter

    def forget(self) -> None:
        """Forget the steps so far: they were no training."""
        self._steps.clear()
        self._optimized.clear()
        self._with_gradient.clear()

    def findings(self) -> list[Note]:
        """What is certainly not meant, with the place where the optimizer was created or makes its step."""
        names = {
            id(parameter): name for model in self._models() for name, parameter in model.named_parameters()
        }
        found: list[Note] = []
        for optimizer, place in self._steps.items():
            own = [
                parameter
                for owner, parameter in self._optimized.values()
                if owner == optimizer
                and id(parameter) in names
                and parameter.requires_grad
                and self._is_on_gpu(parameter)
            ]
            without = [parameter for parameter in own if id(parameter) not in self._with_gradient]
            if own and len(without) == len(own):
                text = (
                    "No parameter of the optimizer gets a gradient: nothing is trained. The loss that `backward` gets does not depend on "
                    "them, as after .item(), .detach() or torch.tensor(loss), or `backward` is not called."
                )
                found.append(Note(DETACHED, text, *place, count=len(own)))
            elif without:
                text = (
                    f"{_listed(without, names)} of the optimizer got no gradient in the steps that were traced: the loss does not depend on "
                    "them. DDP ends with an error then, unless find_unused_parameters=True."
                )
                found.append(Note(UNUSED, text, *self._created.get(optimizer, place), count=len(without)))
        # A model whose type was changed after its optimizer was created has other parameters here, and the same ones in PyTorch.
        is_known = all(parameter in names for parameter in self._optimized)
        others = [
            parameter
            for parameter in self._with_gradient.values()
            if id(parameter) not in self._optimized and self._is_on_gpu(parameter)
        ]
        if others and is_known and self._steps:
            first = next(iter(self._steps))
            text = (
                f"{_listed(others, names)} got gradients and are in no optimizer: they are not trained. Pass them to the optimizer, or save "
                "the time and memory of their gradients with requires_grad_(False)."
            )
            found.append(
                Note(NOT_OPTIMIZED, text, *self._created.get(first, self._steps[first]), count=len(others))
            )
        return found

    def _add(self, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._optimized[id(parameter)] = id(optimizer), parameter


def _listed(parameters: list[Any], names: dict[int, str]) -> str:
    """The first names, and how many numbers all of them are."""
    known = [names.get(id(parameter), f"one of shape {tuple(parameter.shape)}") for parameter in parameters]
    rest = len(known) - _NAMED
    shown = ", ".join(known[:_NAMED]) + (f" and {rest} more parameters" if rest > 0 else "")
    return f"{shown} ({sum(parameter.numel() for parameter in parameters):,} numbers)"
