"""Finds the ends of training steps: steps of optimizers, or the updates of a script that has none."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.optim.optimizer as optimizers

from gpuproof.trace.notes import Notes
from gpuproof.trace.pytorch.fake_gpu import FakeGpu
from gpuproof.trace.pytorch.operators import OperatorLog
from gpuproof.trace.pytorch.recorder import Mark, Recorder
from gpuproof.trace.pytorch.steps.rate_search import RateSearch
from gpuproof.trace.pytorch.steps.trained_parameters import TrainedParameters

_MOST_STEPS_OF_SEARCH = 1000
_MOST_PASSES = 300
"""Backward passes without an optimizer, and without a change of the weights, after which none is expected."""


class TrainingSteps:
    """The training steps of a script so far.

    With several optimizers, a step ends when the last one of a cycle has stepped. Without any, it ends before the first call of a model
    that follows a backward pass, if the script has changed the weights itself in between; if it has not, the pass warms up the GPU, and
    counts only if nothing else follows. Steps that search the learning rate count only if no others follow.

    Args:
        recorder: makes the marks.
        log: learns when an optimizer runs.
        gpu: knows which parameters are on the GPU.
        wanted: returns how many steps to record.
        complete: called when these were made.
        parameters: learns of optimizers and their steps.
        notes: takes what was taken for no training.
        begin: called with the end of what was before the training.

    Attributes:
        search: knows which steps search a learning rate.
        optimizers: that have stepped.
        on_host: whether one of them changed parameters that are not on the GPU.
    """

    def __init__(
        self,
        recorder: Recorder,
        log: OperatorLog,
        gpu: FakeGpu,
        wanted: Callable[[], int],
        complete: Callable[[], None],
        parameters: TrainedParameters,
        notes: Notes,
        begin: Callable[[Mark], None],
    ) -> None:
        self._recorder = recorder
        self._log = log
        self._gpu = gpu
        self._wanted = wanted
        self._complete = complete
        self._parameters = parameters
        self._notes = notes
        self._begin = begin
        self.search = RateSearch()
        self._marks: list[tuple[int, Mark]] = []
        self._updates: list[Mark] = []
        self._passes: list[Mark] = []
        self._has_optimizer = self._updating = False
        self.optimizers: dict[int, Any] = {}
        self.on_host = False

    def install(self) -> None:
        """Watch optimizers and backward passes from now on."""
        optimizers.register_optimizer_step_pre_hook(self._before_optimizer)
        optimizers.register_optimizer_step_post_hook(self._after_optimizer)
        original_init: Any = torch.optim.Optimizer.__init__
        backward, gradients = torch.autograd.backward, torch.autograd.grad

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._has_optimizer = True
            original_init(optimizer, *args, **kwargs)
            self._parameters.created(optimizer)

        def watched(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                result = function(*args, **kwargs)
                self._after_backward()
                return result

            return call

        torch.optim.Optimizer.__init__ = init  # type: ignore[method-assign]
        torch.autograd.backward = watched(backward)
        torch.autograd.grad = watched(gradients)

    def before_call(self) -> None:
        """A model is about to be called."""
        if self._updating:
            self._end_update()
            is_last = len(self._updates) >= self._wanted() or len(self._passes) >= _MOST_PASSES
            if is_last and not self._has_optimizer:
                self._complete()

    @property
    def count(self) -> int:
        """How many steps there were, those of several optimizers each by itself."""
        return len(self._marks) + len(self._updates) + len(self._passes)

    def marks(self) -> list[Mark]:
        """The ends of all steps so far."""
        if self._updating:
            self._end_update()
        if not self._marks:
            return self._updates or self._passes[: self._wanted()]
        order = [key for key, _ in self._marks]
        again = next((index for index in range(1, len(order)) if order[index] == order[0]), None)
        last = order[-1] if again is None else order[again - 1]
        if again is None and len(set(order)) > 1:
            return [self._marks[-1][1]]
        found = [mark for key, mark in self._marks if key == last]
        return found[: self._wanted()] if self.search.is_active else found

    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        self._follow_rate(optimizer)
        if not self._has_closure(args, kwargs):
            self._parameters.before_step(optimizer)
        self._log.in_optimizer = True
        for parameter in parameters_of(optimizer):
            if self._gpu.is_on_gpu(parameter):
                self._recorder.classify(parameter, "parameter")
                if parameter.grad is not None:
                    self._recorder.classify(parameter.grad, "gradient")
            else:
                self.on_host = True
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._as_forward(kwargs["closure"])}
        if len(args) > 1 and callable(args[1]):  # the first one is the optimizer
            return (args[0], self._as_forward(args[1]), *args[2:]), kwargs
        return None

    @staticmethod
    def _has_closure(args: Any, kwargs: Any) -> bool:
        """Whether the step computes the gradients itself."""
        return callable(kwargs.get("closure")) or (len(args) > 1 and callable(args[1]))

    def _as_forward(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """A closure that computes the loss, which is no part of the optimizer."""

        def call() -> Any:
            self._log.in_optimizer = False
            try:
                return closure()
            finally:
                self._log.in_optimizer = True

        return call

    def _after_optimizer(self, optimizer: Any, *_: Any) -> None:
        self._log.in_optimizer = False
        for state in optimizer.state.values():
            for value in state.values():
                if self._gpu.is_on_gpu(value):
                    self._recorder.classify(value, "optimizer")
        self._recorder.enter("other")
        self.optimizers.setdefault(id(optimizer), optimizer)
        self._marks.append((id(optimizer), self._recorder.mark()))
        if self.search.is_active and len(self._marks) < _MOST_STEPS_OF_SEARCH:
            return
        if len(self.marks()) >= self._wanted():
            self._complete()

    def _follow_rate(self, optimizer: Any) -> None:
        """Forget the steps before this one if they have searched a learning rate, and it does not."""
        was_search = self.search.is_active
        self.search.add(optimizer)
        if not was_search or self.search.is_active:
            return
        steps = len(self._marks)
        text = f"The {steps} steps before search the learning rate, which grows in each of them: the plan is for the steps after them."
        self._notes.add("rate-search", text)
        self._begin(self._marks[-1][1])
        self._marks.clear()
        self.optimizers.clear()

    def _after_backward(self) -> None:
        if not self._has_optimizer and self._recorder.has_calls:
            self._updating = self._log.in_optimizer = True
            self._log.has_used_weights = False

    def _end_update(self) -> None:
        self._updating = self._log.in_optimizer = False
        self._recorder.enter("other")
        (self._updates if self._log.has_used_weights else self._passes).append(self._recorder.mark())


def parameters_of(optimizer: Any) -> list[Any]:
    """The parameters that an optimizer changes."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
