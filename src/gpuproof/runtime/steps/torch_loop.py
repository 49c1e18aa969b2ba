"""The training loop as the hooks of PyTorch see it: when a step ends, and which passes over a loader are evaluations."""

from __future__ import annotations

from types import FrameType
from typing import Any, Callable

from gpuproof.runtime.steps.cuda_clock import CudaClock
from gpuproof.runtime.steps.location import Place, is_script
from gpuproof.runtime.steps.recorder import Recorder

PYTORCH = "pytorch"


class Loader:
    """What is known of a `DataLoader`, without a reference to it.

    Args:
        place: the script's line that has made it.
        settings: its arguments that matter for its speed.
    """

    def __init__(self, place: Place | None, settings: dict[str, Any]) -> None:
        self.place = place
        self.settings = settings
        self.trains = False

    def __copy__(self) -> Loader:
        return self

    def __deepcopy__(self, memo: Any) -> Loader:
        return self

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Where a pickled loader is read, there may be no such class."""
        return dict, ()


class LoaderPass:
    """One pass over a data loader.

    Args:
        place: of the call that has begun it.
    """

    def __init__(self, loader: Loader, place: Place | None) -> None:
        self.loader = loader
        self.place = place
        self.batches = 0
        self.seconds = 0.0
        self.without_gradients = 0
        self.exhausted = False
        self.fetched_before = False


class TorchLoop:
    """What has happened since the last step, in the thread that trains.

    A step ends with the first batch that is fetched after an optimizer's step; in loops without a `DataLoader`, with each step
    of the first optimizer. A pass over a loader is an evaluation, unless a backward pass follows one of its batches.
    """

    def __init__(self, torch: Any, recorder: Recorder) -> None:
        self.recorder = recorder
        self.torch = torch
        self._graph_module: type = torch.fx.GraphModule
        self._grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self.before_backward: list[Callable[[Any], None]] = []
        self._passes: list[LoaderPass] = []
        self._training_places: set[Place | None] = set()
        self._epochs = -1
        self._first_optimizer: int | None = None
        self._fetched = False
        self._stepped = False
        self.uses_cuda = False
        self.reads_values = False
        """Whether the value of a tensor that is read now is read by the loop: not before the first step, nor by an optimizer."""
        recorder.before_close = self._end_step

    def on_pass(self, loader: Loader, place: Place | None) -> None:
        """A pass over a loader begins."""
        if self.recorder.inside("evaluation"):
            return
        self._end_step()
        self._close_ended(loader)
        begun = LoaderPass(loader, place)
        begun.fetched_before = self._fetched
        self._passes.append(begun)
        self.recorder.open_pass()

    def on_fetch(self, loader: Loader) -> None:
        """The next batch of a loader is fetched."""
        if self.recorder.inside("evaluation"):
            return
        self._end_step()
        self._close_ended(loader)
        self._fetched = True

    def on_batch(self, loader: Loader, seconds: float, last: bool) -> None:
        """A batch has arrived, or there is none any more.

        Args:
            seconds: that the script waited for it.
        """
        if self.recorder.inside("evaluation"):
            return
        found = self._pass_of(loader)
        if found is not None:
            found.batches += 1
            found.seconds += seconds
            found.exhausted = last
            if last and found is self._passes[-1]:
                self.recorder.exhaust_pass()
        else:
            self._locate_input(loader, seconds, 1)

    def on_forward(self, model: Any) -> str:
        """A model is called by the script; return the phase of the call."""
        if isinstance(model, self._graph_module):
            return "forward"  # part of a compiled function
        if not self._grad_enabled():
            if self._passes:
                self._passes[-1].without_gradients += 1
            elif self._stepped:
                return "evaluation"
            return "forward"
        if self.recorder.precision is None:
            self.recorder.precision = _precision(self.torch, model)
        # After a single batch, a model without gradients may also be the teacher of the one that is trained.
        if self._passes and self._passes[-1].without_gradients > 1 and self._passes[-1].batches > 1:
            self._close()
        return "forward"

    def on_backward(self, tensors: Any) -> None:
        """A backward pass begins: what has been fetched so far is for the training."""
        if self.recorder.steps == 0 and not self.recorder.is_training_thread():
            self.recorder.use_thread()
        if self.recorder.steps == 0 and not self.uses_cuda:
            self._use_cuda(tensors if isinstance(tensors, self.torch.Tensor) else tensors[0])
        for prepare in self.before_backward:
            prepare(tensors)
        if not self._passes:
            return
        repeated = any(self._is_training(found.loader) for found in self._passes)
        begins = self._epochs < 0 or repeated
        if begins:
            self._epochs += 1
        self.recorder.commit_passes(self._epochs if begins else None)
        for found in self._passes:
            found.loader.trains = True
            if found.loader.place is not None:
                self._training_places.add(found.loader.place)
            self._locate_input(found.loader, found.seconds, found.batches)
        self._passes.clear()

    def on_optimizer(self, optimizer: Any) -> None:
        """An optimizer has made a step."""
        if not self.recorder.loop:
            self.recorder.loop = PYTORCH
        if self._first_optimizer is None:
            self._first_optimizer = id(optimizer)
        if not self._fetched and id(optimizer) == self._first_optimizer:
            self.recorder.step()
        self._stepped = True

    def may_wait(self, tensor: Any, frame: FrameType) -> bool:
        """Whether reading a tensor's value waits for a GPU; on the CPU, whether the script's own loop reads one."""
        if self.uses_cuda:
            # GradScaler has to know whether gradients overflowed.
            is_scaler = frame.f_code.co_filename.endswith("grad_scaler.py")
            return tensor.is_cuda and not is_scaler and self.recorder.is_training_thread()
        return self._stepped_once() and is_script(frame.f_code) and not self.recorder.inside("input")

    def on_wait(self, what: str, frame: FrameType, seconds: float) -> None:
        """The script has read a tensor's value."""
        if self._stepped_once() and not self.recorder.inside("evaluation"):
            self.recorder.locate("synchronization", what, frame, seconds=seconds)

    def _stepped_once(self) -> bool:
        return self.recorder.steps > 0 and self.recorder.is_training_thread()

    def _use_cuda(self, loss: Any) -> None:
        if loss.is_cuda:
            self.uses_cuda = True
            self.recorder.use_clock(lambda ledger: CudaClock(self.torch, ledger))

    def _end_step(self) -> None:
        if self._stepped:
            if self._fetched:
                self.recorder.step()
            self._stepped = self._fetched = False

    def _pass_of(self, loader: Loader) -> LoaderPass | None:
        return next((found for found in reversed(self._passes) if found.loader is loader), None)

    def _close_ended(self, loader: Loader) -> None:
        """Close passes that have ended, or that were left for the training."""
        while self._passes and self._passes[-1].loader is not loader:
            last = self._passes[-1]
            if not last.exhausted and not (self._is_training(loader) and last.without_gradients):
                return
            self._close()
        while self._passes and self._passes[-1].exhausted:
            self._close()

    def _is_training(self, loader: Loader) -> bool:
        """Whether a backward pass has followed a batch of a loader, or of an earlier one that the same line has made."""
        return loader.trains or loader.place in self._training_places

    def _close(self) -> None:
        ended = self._passes.pop()
        self._fetched = ended.fetched_before
        self.recorder.close_pass()
        self.recorder.locate("evaluation", "DataLoader", ended.place, ended.loader.settings, ended.seconds)

    def _locate_input(self, loader: Loader, seconds: float, count: int) -> None:
        # Keras on PyTorch makes a loader of its own from what the script passes to `fit`.
        if self.recorder.loop != "keras":
            self.recorder.locate("input", "DataLoader", loader.place, loader.settings, seconds, count)


def _precision(torch: Any, model: Any) -> str | None:
    """The precision of a model's products, such as `bfloat16`: that of autocast, or else of its first parameter."""
    parameter = next(model.parameters(), None)
    if parameter is None:
        return None
    dtype, device = parameter.dtype, parameter.device.type
    if hasattr(torch, "get_autocast_dtype"):  # PyTorch 2.4
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
    elif device == "cuda" and torch.is_autocast_enabled():
        dtype = torch.get_autocast_gpu_dtype()
    return str(dtype).rpartition(".")[2]


_SETTINGS = ("num_workers", "batch_size", "pin_memory", "prefetch_factor", "persistent_workers")


def settings_of(loader: Loader) -> dict[str, Any]:
    """The arguments of a `DataLoader` that matter for its speed."""
    values = {name: getattr(loader, name, None) for name in _SETTINGS}
    if values["batch_size"] is None:
        values["batch_size"] = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return {
        name: value
        for name, value in values.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }
