"""One traced run of PyTorch code: installs everything, counts steps, and makes the trace."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from gpuproof.trace.document import CATEGORIES, Input, Memory, Note, Trace, TraceFailure
from gpuproof.trace.notes import PREVENTED, Notes
from gpuproof.trace.pytorch.amp import Precision, emulate_autocast, emulate_gradient_scaling
from gpuproof.trace.pytorch.changes import apply_changes
from gpuproof.trace.pytorch.cuda_functions import answer_for
from gpuproof.trace.pytorch.distributed import emulate_process_group
from gpuproof.trace.pytorch.fake_gpu import FakeGpu, is_gpu
from gpuproof.trace.pytorch.libraries import watch_libraries
from gpuproof.trace.pytorch.loader import watch_loaders
from gpuproof.trace.pytorch.modules import (
    make_parameters_fake,
    move_parameters_in_place,
    open_attention_layers,
    use_no_grad_for_inference,
)
from gpuproof.trace.pytorch.operators import OperatorLog
from gpuproof.trace.pytorch.operators.finite_values import watch_checks
from gpuproof.trace.pytorch.operators.sequences import watch_packed_sequences
from gpuproof.trace.pytorch.recorder import Mark, Recorder
from gpuproof.trace.pytorch.repetitions import without_repetitions
from gpuproof.trace.pytorch.saved_models import replace_files
from gpuproof.trace.pytorch.steps.repeated_calls import RepeatedCalls
from gpuproof.trace.pytorch.steps.trained_parameters import TrainedParameters
from gpuproof.trace.pytorch.steps.training_steps import TrainingSteps, parameters_of
from gpuproof.trace.pytorch.tensor_types import replace_tensor_types
from gpuproof.trace.pytorch.wrappers import Wrappers
from gpuproof.trace.target import TargetGpu

_INPUT = CATEGORIES.index("input")

_CALLS_WITHOUT_LOADER = 20
"""Of a model, after which a script is not expected to create a loader."""

_NO_STEP = TraceFailure(
    "no-step",
    "The script ended before an optimizer made a step, and called no model on the GPU.",
    "Pass the arguments with which it trains after `--`.",
)
_NOT_ON_GPU = TraceFailure(
    "not-on-gpu",
    "The script trained on the CPU: it moved no model to the GPU.",
    'Move the model and each batch to the GPU, with `.to("cuda")`: on an instance with a GPU it would not be used either.',
)

_HANDLER_ON_CPU = TraceFailure(
    "not-on-gpu",
    "The handler answered its requests on the CPU: nothing ran on the GPU.",
    'Move the model in model_fn and the data in predict_fn to the GPU, with `.to("cuda")`.',
)


class TorchSession:
    """Pretends that this process has a GPU, and records what the script does with it.

    Args:
        target: the GPU.
        steps: how many steps to record.
        batch_scale: multiplies the batch size of data loaders.
        inference: steps are batches of the data loader, or calls of the model if there is none, not steps of an optimizer.
        serving: steps are the requests that `end_request` ends.
        complete: called when enough steps were recorded.
        change: of the script, by the names that `apply_changes` takes; None for none.
        wait: called once if the script uses its model without a data loader, whose batches are all that `batch_scale` changes.
    """

    places_models = True
    """Whether it depends on the script which device a model is on."""

    def __init__(
        self,
        target: TargetGpu,
        *,
        steps: int,
        batch_scale: int = 1,
        inference: bool = False,
        serving: bool = False,
        complete: Callable[[], None],
        change: str | None = None,
        wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._started = time.perf_counter()
        self._steps = steps
        self._inference = inference
        self._serving = serving
        self._complete = complete
        self.notes = Notes()
        self.recorder = Recorder()
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.gpu = FakeGpu(self.recorder, fake, self.notes)
        self._log = OperatorLog(self.recorder, fake, self.notes, self.gpu)
        self._precision = Precision()
        self._world = target.count
        self._wrappers = Wrappers(self.gpu, self.notes, self._world)
        self._scaled = batch_scale != 1
        self._wait, self._calls_without_loader = wait, 0
        self._models: dict[int, Any] = {}
        self._parameters = TrainedParameters(self.gpu.is_on_gpu, self._models.values)
        self._training = TrainingSteps(
            *(self.recorder, self._log, self.gpu, self._wanted_steps, self._end_training, self._parameters),
            *(self.notes, self._begin_training),
        )
        self._repeated = RepeatedCalls(
            *(self.recorder, fake, self.gpu, lambda: self._training.count),
            *(self._before_call, self._after_call),
        )
        self._call_marks: list[Mark] = [self.recorder.mark()]
        self._batch_marks: list[Mark] = []
        self._request_marks: list[Mark] = []
        self._base = Mark(0, 0, 0, 0, 0.0)
        self._depth = 0
        self._install(target, fake, batch_scale)
        if change is not None:
            apply_changes(change)

    def __enter__(self) -> TorchSession:
        """Begin to record."""
        self._modes = ExitStack()
        self._modes.enter_context(self.gpu)
        self._modes.enter_context(self._log)
        return self

    def __exit__(self, *error: object) -> None:
        """End it."""
        self._modes.close()

    def _install(self, target: TargetGpu, fake: FakeTensorMode, batch_scale: int) -> None:
        answer_for(target, self.recorder)
        self.gpu.answer_device()
        replace_tensor_types(self.gpu)
        make_parameters_fake(fake)
        move_parameters_in_place(self.gpu, self.recorder)
        emulate_autocast(self.gpu, self._precision)
        emulate_gradient_scaling()
        saved = replace_files(self.gpu, self.notes)
        use_no_grad_for_inference()
        emulate_process_group(self.recorder, self._world)
        self._loader = watch_loaders(self.recorder, batch_scale, self._before_batch)
        watch_libraries(self.notes, saved, self._training.search.declared)
        open_attention_layers()
        watch_packed_sequences(self.gpu)
        watch_checks(self.gpu)
        _choose_foreach()
        # Whether values on the GPU are valid is not known.
        torch.distributions.Distribution.set_default_validate_args(False)
        self._training.install()
        if not self._inference and not self._serving:
            self._repeat_calls()
        register_module_forward_pre_hook(self._before_call)
        register_module_forward_hook(self._after_call, always_call=True)
        self._wrappers.install()

        def set_default_device(device: Any) -> None:
            self.gpu.default_on_gpu = is_gpu(device)

        torch.set_default_device = set_default_device

    def _repeat_calls(self) -> None:
        """Let calls of a model without gradients that only repeat others not run."""
        original: Any = torch.nn.Module.__call__

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            def run() -> Any:
                return original(module, *args, **kwargs)

            if self._depth or torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
                return run()
            return self._repeated.call(module, run, args, kwargs)

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]

    def _wanted_steps(self) -> int:
        # Without a data loader, this trace at another batch size is the same as the one at the script's own.
        return 1 if self._scaled and not self.recorder.batches else self._steps

    def _begin_training(self, mark: Mark) -> None:
        self._base = mark
        self._models.clear()
        self._parameters.forget()

    def _end_training(self) -> None:
        if not self._inference:
            self._complete()

    def _before_call(self, module: Any, *_: Any) -> None:
        if self._depth == 0 and not self._serving:
            self._training.before_call()
            if self._scaled and not self._loader.exists:
                self._calls_without_loader += 1
                if self._calls_without_loader == _CALLS_WITHOUT_LOADER:
                    self._wait()
        self._depth += 1

    def _after_call(self, module: Any, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self.recorder.has_calls:
            self._models[id(module)] = module
            self._call_marks.append(self.recorder.mark())
            if self._inference and not self.recorder.batches and len(self._call_marks) > self._steps:
                self._complete()

    def _before_batch(self) -> None:
        self._end_batch()
        if self._inference and len(self._batch_marks) >= self._steps:
            self._complete()

    def _end_batch(self) -> None:
        """End a step of inference: what was computed since the last batch was taken."""
        before = self._batch_marks[-1].calls if self._batch_marks else 0
        mark = self.recorder.mark()
        if mark.calls > before and self.recorder.batches:
            self._batch_marks.append(mark)

    @property
    def has_steps(self) -> bool:
        """Whether a step was recorded, so that there is a trace even if the script fails now."""
        if self._serving:
            return bool(self._request_marks)
        if self._inference:
            return bool(self._batch_marks or self._call_marks[1:])
        return bool(self._training.marks())

    def end_load(self) -> None:
        """The served model is loaded: requests come from now on."""
        self._base = self.recorder.mark()

    def forget_requests(self) -> None:
        """Forget what requests have done that were only tried, since `end_load`."""
        gc.collect()  # an exception keeps the tensors of its frames in a cycle
        self.recorder.discard(self._base)
        self._base = self.recorder.mark()

    def end_request(self, rows: int | None, seconds: float) -> None:
        """A request was answered.

        Args:
            rows: samples in it; None if it is no batch.
            seconds: that its body and its response took on the host.
        """
        loader = self._loader
        loader.samples = rows
        loader.seconds, loader.batches = seconds, 1  # the first requests take longer
        self._request_marks.append(self.recorder.mark())
        if len(self._request_marks) >= self._steps:
            self._complete()

    def finish(self) -> Trace | TraceFailure:
        """What was recorded."""
        if self._serving:
            marks = self._request_marks
            if not marks or marks[-1].calls == self._base.calls:
                return _HANDLER_ON_CPU
            return self._trace(marks, "serving")
        marks, mode = self._training.marks(), "training"
        if self._inference or not marks:
            self._end_batch()
            marks, mode = (self._batch_marks or self._call_marks[1:])[: self._steps], "inference"
        if not marks or not self.recorder.has_calls:
            return (
                _NOT_ON_GPU
                if self._training.on_host or self._depth or self._training.optimizers
                else _NO_STEP
            )
        return self._trace(marks, mode)

    def _trace(self, marks: list[Mark], mode: str) -> Trace:
        recorder = self.recorder
        start = marks[-2] if len(marks) > 1 else self._base
        last = marks[-1]
        parameters = self._all_parameters()
        memory = without_repetitions(recorder.memory(marks))
        return Trace(
            framework="torch",
            framework_version=torch.__version__.partition("+")[0],
            mode=mode,
            steps=len(marks),
            operators=recorder.operators(start, last),
            memory=memory,
            host_operators=last.host_operators - start.host_operators,
            parameters=sum(map(_count, parameters)),
            trainable=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
            model_bytes=sum(parameter.numel() * parameter.element_size() for parameter in parameters),
            optimizer=next(
                (type(optimizer).__name__ for optimizer in self._training.optimizers.values()), None
            ),
            precision=self._precision_name(parameters),
            compiled=self._wrappers.compiled,
            checkpointing=self._wrappers.checkpointing,
            strategy=self._wrappers.strategy,
            world_size=self._world,
            sharding=self._wrappers.sharding(),
            collective_bytes=last.sent - start.sent + self._wrappers.bytes_sent(parameters),
            input=self._input(memory, last.batches - start.batches),
            assumptions=self._assumptions(marks),
            side_effects=[note for note in self.notes.list() if note.code in PREVENTED],
            findings=self._parameters.findings() if mode == "training" else [],
            seconds=time.perf_counter() - self._started,
            peak_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _all_parameters(self) -> list[Any]:
        found = {
            id(parameter): parameter for model in self._models.values() for parameter in model.parameters()
        }
        for optimizer in self._training.optimizers.values():
            found.update((id(parameter), parameter) for parameter in parameters_of(optimizer))
        return list(found.values())

    def _precision_name(self, parameters: list[Any]) -> str:
        if self._precision.autocast is not None:
            return f"amp-{str(self._precision.autocast).partition('.')[2]}"
        counts: dict[str, int] = {}
        for parameter in parameters:
            name = str(parameter.dtype).partition(".")[2]
            if hasattr(parameter, "gpuproof_numel"):
                name = f"{8 * parameter.numel() // _count(parameter)}-bit"
            counts[name] = counts.get(name, 0) + _count(parameter)
        return max(counts, key=lambda name: counts[name]) if counts else "float32"

    def _input(self, memory: Memory, batches: int) -> Input:
        loader = self._loader
        taken = [memory.blocks[event - 1] for event in _last_step(memory.events) if event > 0]
        size = sum(size for size, category in taken if category == _INPUT)
        return Input(
            samples=loader.samples,
            host_s=loader.seconds / loader.batches if loader.batches else None,
            workers=loader.workers,
            steps_per_epoch=None if loader.length is None else max(1, loader.length // max(1, batches)),
            bytes=size,
            batches=max(1, batches),
        )

    def _assumptions(self, marks: list[Mark]) -> list[Note]:
        notes = [note for note in self.notes.list() if note.code not in PREVENTED]
        if self._wrappers.compiled:
            notes.append(
                Note("compile", "torch.compile was left out: the operators are those of eager mode.")
            )
        if len(marks) == 1:
            notes.append(Note("one-step", "Only one step was recorded: the second may need more memory."))
        return notes


def _count(parameter: Any) -> int:
    """Numbers in a parameter, of which quantized ones have several in a byte."""
    return getattr(parameter, "gpuproof_numel", parameter.numel())


def _last_step(events: list[int]) -> list[int]:
    """The allocations and frees of the last step; steps end with 0."""
    before = len(events) - 1
    while before > 0 and events[before - 1] != 0:
        before -= 1
    return events[before:-1]


def _choose_foreach() -> None:
    """Let optimizers choose their implementation as for parameters on a GPU, by which their temporaries differ."""
    import sys

    def choose(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
        return False, not differentiable

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.optim") and hasattr(module, "_default_to_fused_or_foreach"):
            module._default_to_fused_or_foreach = choose  # type: ignore[attr-defined]
