"""Hooks for `fit` of Keras 3 on TensorFlow and PyTorch, and of Keras 2.

Keras reports what it does to its list of callbacks, and that is where these hooks listen. Its training step is compiled as one
function, and its time counts as `forward`; with `run_eagerly=True`, and on PyTorch, backward and optimizer are apart.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from gpuproof.runtime.steps import tensorflow_hooks
from gpuproof.runtime.steps.location import Place, script_place
from gpuproof.runtime.steps.recorder import Recorder, caller
from gpuproof.runtime.steps.tf_datasets import describe_pipeline

_INPUT_EACH_S = 0.5
_PLACE = "_gpuproof_place"


def install(module: ModuleType, recorder: Recorder) -> None:
    """Hook into the module of Keras that defines `compile`; the rest of Keras is changed when a model is compiled."""
    owner: Any = getattr(module, "Trainer", None) or getattr(module, "Model", None)
    root = module.__name__.rpartition(".")[0].rpartition(".")[0]
    original = owner.compile

    @functools.wraps(original)
    def compile_model(*arguments: Any, **options: Any) -> Any:
        try:
            _install_once(root, recorder)
        except Exception as error:  # noqa: BLE001 - the script must run as without hooks
            recorder.note(f"{root}: {type(error).__name__}: {error}")
        return original(*arguments, **options)

    owner.compile = compile_model


_installed: set[str] = set()


def _install_once(root: str, recorder: Recorder) -> None:
    if root in _installed:
        return
    _installed.add(root)
    KerasHooks(root, recorder).install()


class KerasHooks:
    """The hooks of one version of Keras.

    Args:
        root: its package, such as `keras.src`.
    """

    def __init__(self, root: str, recorder: Recorder) -> None:
        self._root = root
        self._recorder = recorder
        self._open: list[str] = []
        self._fit_place: Place | None = None
        self._input: tuple[Place | None, str, dict[str, Any]] = (None, "fit", {})
        self._next_input = 0.0
        self._epochs: Any = None
        self._in_fit = False

    def install(self) -> None:
        """Change the classes of Keras."""
        callbacks = self._class("CallbackList", "callbacks.callback_list", "callbacks")
        if callbacks is None:
            return
        for name, before, after in (
            ("on_train_begin", self._train_begin, None),
            ("on_epoch_begin", self._epoch_begin, None),
            ("on_train_batch_begin", None, self._batch_begin),
            ("on_train_batch_end", self._batch_end, None),
            ("on_epoch_end", self._epoch_end, None),
            ("on_train_end", self._train_end, None),
        ):
            _around(self._recorder, callbacks, name, before, after)
        self._time_checkpoints()
        self._time_evaluation()
        self._time_logs()
        self._watch_input()
        hooks = tensorflow_hooks.hooks
        if hooks is not None:
            for owner, method in (
                (self._class("BaseOptimizer", "optimizers.base_optimizer"), "apply"),
                (self._class("OptimizerV2", "optimizers.optimizer_v2.optimizer_v2"), "apply_gradients"),
                (self._class("Optimizer", "optimizers.optimizer"), "apply_gradients"),
            ):
                if owner is not None:
                    hooks.time_optimizer(owner, method)

    def _class(self, name: str, *modules: str) -> Any:
        found = (getattr(sys.modules.get(f"{self._root}.{module}"), name, None) for module in modules)
        return next((kind for kind in found if kind is not None), None)

    def _train_begin(self, callbacks: Any) -> None:
        recorder = self._recorder
        recorder.loop = "keras"
        # A training that an exception ended may be followed by another one.
        self._end("forward")
        self._fit_place = script_place(caller())
        self._input = self._describe_input()
        self._in_fit = True
        model = getattr(callbacks, "_model", None) or getattr(callbacks, "model", None)
        precision = getattr(model, "compute_dtype", None)
        if isinstance(precision, str):
            recorder.precision = precision
        if tensorflow_hooks.hooks is not None:
            tensorflow_hooks.hooks.in_fit = True

    def _epoch_begin(self, _: Any, epoch: int, *__: Any) -> None:
        self._recorder.epoch(epoch)

    def _batch_begin(self, *_: Any) -> None:
        self._begin("forward")

    def _batch_end(self, *_: Any) -> None:
        self._end("forward")
        now = self._recorder.now()
        if now >= self._next_input:
            self._next_input = now + _INPUT_EACH_S
            self._take_input()
        self._recorder.step()

    def _epoch_end(self, *_: Any) -> None:
        # An iterator without a known length ends in the middle of a step, in which it had no further batch.
        self._end("forward")
        self._take_input()

    def _train_end(self, *_: Any) -> None:
        self._end("forward")
        self._take_input()
        self._in_fit = False
        self._epochs = None
        if tensorflow_hooks.hooks is not None:
            tensorflow_hooks.hooks.in_fit = False

    def _begin(self, phase: str) -> None:
        if phase not in self._open:
            self._open.append(phase)
            self._recorder.begin(phase)

    def _end(self, phase: str) -> None:
        if phase in self._open:
            self._open.remove(phase)
            self._recorder.end(phase)

    def _take_input(self) -> None:
        if tensorflow_hooks.hooks is not None:
            self._locate_input(tensorflow_hooks.hooks.take_graph_input())

    def _time_checkpoints(self) -> None:
        for name, modules in (
            ("ModelCheckpoint", ("callbacks.model_checkpoint", "callbacks")),
            ("BackupAndRestore", ("callbacks.backup_and_restore", "callbacks")),
        ):
            kind = self._class(name, *modules)
            if kind is not None:
                _around(self._recorder, kind, "__init__", _remember_place, None)
                self._time_saving(kind, "_save_model", name)
        model = self._class("Model", "models.model", "engine.training")
        for method in ("save", "save_weights", "export"):
            if model is not None:
                self._time_saving(model, method, f"Model.{method}")

    def _time_saving(self, owner: Any, method: str, what: str) -> None:
        original, recorder = getattr(owner, method, None), self._recorder
        if original is None:
            return

        @functools.wraps(original)
        def save(instance: Any, *arguments: Any, **options: Any) -> Any:
            if recorder.inside("checkpoint"):
                return original(instance, *arguments, **options)
            began = recorder.now()
            recorder.begin("checkpoint")
            try:
                return original(instance, *arguments, **options)
            finally:
                recorder.end("checkpoint")
                place = getattr(instance, _PLACE, None) or caller()
                recorder.locate("checkpoint", what, place, seconds=recorder.now() - began)

        setattr(owner, method, save)

    def _time_evaluation(self) -> None:
        model, recorder = self._class("Model", "models.model", "engine.training"), self._recorder
        for name in ("evaluate", "predict"):
            original = getattr(model, name, None)
            if original is not None:
                setattr(model, name, self._evaluation(original, name, recorder))

    def _evaluation(self, original: Any, name: str, recorder: Recorder) -> Any:
        @functools.wraps(original)
        def evaluate(*arguments: Any, **options: Any) -> Any:
            if recorder.inside("evaluation"):
                return original(*arguments, **options)
            in_fit, self._in_fit = self._in_fit, False
            self._end("forward")
            began = recorder.now()
            recorder.begin("evaluation")
            try:
                return original(*arguments, **options)
            finally:
                recorder.end("evaluation")
                self._in_fit = in_fit
                what = f"{name} in fit" if in_fit else f"Model.{name}"
                recorder.locate("evaluation", what, caller(), seconds=recorder.now() - began)

        return evaluate

    def _time_logs(self) -> None:
        """Count waiting for the losses of a step for the step: on a GPU, the script waits here until it is computed."""
        for name, module in (
            ("pythonify_logs", "utils.python_utils"),
            ("sync_to_numpy_or_python_type", "utils.tf_utils"),
        ):
            owner: Any = sys.modules.get(f"{self._root}.{module}")
            original = getattr(owner, name, None)
            if original is not None:
                setattr(owner, name, self._logs(original))

    def _logs(self, original: Any) -> Any:
        recorder = self._recorder

        @functools.wraps(original)
        def convert(logs: Any) -> Any:
            if not logs or not self._in_fit or not recorder.is_outside:
                return original(logs)
            recorder.begin("forward")
            try:
                return original(logs)
            finally:
                recorder.end("forward")

        return convert

    def _watch_input(self) -> None:
        """Remember the newest iterator over epochs: the last one before a training is the training's own."""
        for name, module in (
            ("EpochIterator", "trainers.epoch_iterator"),
            ("DataHandler", "engine.data_adapter"),
        ):
            kind = self._class(name, module)
            if kind is not None:
                _around(self._recorder, kind, "__init__", None, self._remember_epochs)
                self._time_next(kind)

    def _remember_epochs(self, epochs: Any, *_: Any) -> None:
        self._epochs = epochs

    def _time_next(self, kind: Any) -> None:
        """Count the time in which batches are fetched outside of the step, as on PyTorch."""
        original, recorder = getattr(kind, "__next__", None), self._recorder
        if original is None:
            return

        @functools.wraps(original)
        def fetch(epochs: Any) -> Any:
            if not self._in_fit:
                return original(epochs)
            recorder.begin("input")
            began = recorder.now()
            try:
                return original(epochs)
            finally:
                recorder.end("input")
                self._locate_input(recorder.now() - began)

        kind.__next__ = fetch

    def _locate_input(self, seconds: float) -> None:
        if seconds and self._recorder.steps and not self._recorder.inside("evaluation"):
            place, what, settings = self._input
            self._recorder.locate("input", what, place, settings, seconds)

    def _describe_input(self) -> tuple[Place | None, str, dict[str, Any]]:
        """The line of the input, what it is, and its settings: that of its definition if it is known, or of `fit`."""
        adapter = getattr(self._epochs, "data_adapter", None) or getattr(self._epochs, "_adapter", None)
        dataset = getattr(adapter, "_dataset", None)
        py_dataset = getattr(adapter, "py_dataset", None) or getattr(adapter, "_keras_sequence", None)
        loader = getattr(adapter, "_dataloader", None)
        if py_dataset is not None:
            workers = getattr(py_dataset, "workers", None)
            return self._fit_place, type(py_dataset).__name__, {} if workers is None else {"workers": workers}
        if loader is not None:
            return self._fit_place, "DataLoader", {"num_workers": getattr(loader, "num_workers", None)}
        if "Generator" in type(adapter).__name__:
            return self._fit_place, "generator", {}
        place, what, settings = describe_pipeline(dataset)
        if place is not None:
            return place, what, dict(settings)
        # Keras makes a pipeline of its own from arrays.
        return self._fit_place, "arrays", {}


def _remember_place(instance: Any, *_: Any) -> None:
    place = script_place(caller())
    if place is not None:
        setattr(instance, _PLACE, place)


def _around(recorder: Recorder, owner: Any, method: str, before: Any, after: Any) -> None:
    """Call functions with the arguments of a method before and after it."""
    original = getattr(owner, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        if before is not None:
            recorder.guard(method, before, *arguments)
        result = original(*arguments, **options)
        if after is not None:
            recorder.guard(method, after, *arguments)
        return result

    setattr(owner, method, wrapped)
