"""The data for validation or testing are the training data: the score says how well the model remembers, not how well it works.

`DataLoader(train_dataset)` as the validation loader, `train=True` for the test set, or `validation_data=(x_train, y_train)`. Early stopping,
the choice of the best model and hyperparameter tuning then all reward overfitting.

Bad:

    from torch.utils.data import DataLoader

    def loaders(train_dataset, test_dataset):
        train_loader = DataLoader(train_dataset, batch_size=64, shuffle=True, num_workers=4)
        test_loader = DataLoader(train_dataset, batch_size=64, num_workers=4)  # <-
        return train_loader, test_loader

Bad: the flag was copied

    from torchvision.datasets import CIFAR10

    train_set = CIFAR10("data", train=True, download=True)
    test_set = CIFAR10("data", train=True, download=True)  # <-

Bad: Keras

    import keras

    def train(x_train, y_train):
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        model.fit(x_train, y_train, epochs=10, validation_data=(x_train, y_train))  # <-

Bad: the part was copied

    import keras
    import tensorflow_datasets as tfds

    def load(split):
        return tfds.load("food101", split=split, as_supervised=True).batch(32).prefetch(2)

    train = load("train")
    valid = load("train")  # <-

Bad: a test of Keras

    import keras
    import numpy as np

    train, val = np.load("train.npz"), np.load("val.npz")
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(train, validation_data=val, epochs=5)
    test_loss, test_mae = model.evaluate(train)  # <-

Good:

    from torch.utils.data import DataLoader

    def loaders(train_dataset, test_dataset):
        train_loader = DataLoader(train_dataset, batch_size=64, shuffle=True, num_workers=4)
        test_loader = DataLoader(test_dataset, batch_size=64, num_workers=4)
        return train_loader, test_loader

Quiet: LT104 reports the loaders that Lightning's Trainer gets

    import lightning as L
    from model import Net
    from torch.utils.data import DataLoader
    from torchvision.datasets import CIFAR10

    train_set = CIFAR10("data", train=True)
    test_set = CIFAR10("data", train=True)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=4)
    test_loader = DataLoader(test_set, batch_size=64, num_workers=4)
    L.Trainer(max_epochs=3).fit(Net(), train_loader, test_loader)

Quiet: and those of its data modules

    import lightning as L
    from torch.utils.data import DataLoader
    from torchvision.datasets import CIFAR10

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set = CIFAR10("data", train=True)
            self.test_set = CIFAR10("data", train=True)

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def test_dataloader(self):
            return DataLoader(self.test_set, batch_size=64, num_workers=4)

Quiet: samplers split one dataset

    from torch.utils.data import DataLoader, SubsetRandomSampler
    from torchvision.datasets import CIFAR10

    train_set = CIFAR10("data", train=True)
    valid_set = CIFAR10("data", train=True)
    train_loader = DataLoader(train_set, sampler=SubsetRandomSampler(range(40000)), num_workers=4)
    valid_loader = DataLoader(train_set, sampler=SubsetRandomSampler(range(40000, 50000)), num_workers=4)

Quiet: another part of the same array

    import keras

    train_dataset = keras.utils.timeseries_dataset_from_array(data[:-delay], targets, 120, end_index=split)
    val_dataset = keras.utils.timeseries_dataset_from_array(data[:-delay], targets, 120, start_index=split)
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.keras_fits import fits
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.shared_data import is_shared_with_lightning
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF143", "evaluated-on-training-data", Severity.WARNING, needs=("torch", "tensorflow", "keras"))

_HELD_OUT = re.compile(
    r"(^|_)(test|val|valid|validation|eval|dev)(_|\d|set|loader|data|ds|dl|$)", re.IGNORECASE
)
_TRAINING = re.compile(r"(^|_)(train|training|tr)(_|\d|set|loader|data|ds|dl|$)", re.IGNORECASE)
_ON_TRAINING = re.compile(r"on_train|train_(eval|acc|test)|eval_train", re.IGNORECASE)
_SPLITS = re.compile(
    r"(^|[._])(Subset\w*|random_split|\w*Sampler|train_test_split|KFold|StratifiedKFold|indices)$"
)
_NO_SELECTION = frozenset({"batch_size", "shuffle", "transform", "num_workers", "image_size", "seed"})
_DATASET = re.compile(r"^torchvision\.datasets\.[A-Z]\w+$")


class _Assigned(NamedTuple):
    name: str
    call: Call


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or not module.imports("torch", "torchvision", "tensorflow", "keras"):
        return
    yield from _loaders(module)
    yield from _flags(module)
    twins = list(_twins(module))
    if twins and not uses(module, _SPLITS, "call", "name"):
        yield from twins
    yield from _evaluated(module, fits(module))
    for fit in fits(module):
        held_out = fit.expression("validation_data")
        data, labels = fit.expression("x", 0), fit.expression("y", 1)
        if held_out is None or data is None:
            continue
        texts = (
            [module.text(item) for item in held_out.elts]
            if isinstance(held_out, ast.Tuple)
            else [module.text(held_out)]
        )
        own = [module.text(node) for node in (data, labels) if node is not None]
        is_same = texts == own or texts == own[:1]
        if is_same and (
            _names_training(data) or not any(isinstance(child, ast.Call) for child in ast.walk(data))
        ):
            yield rule.hit(
                module.span(held_out),
                f"`validation_data` is `{module.text(held_out)}`, on which the model is trained.",
                remedy="Pass data that the model is not trained on, or validation_split=0.1.",
            )


def _evaluated(module: Module, trained: list[Call]) -> Hits:
    """The only evaluation of a script, if it gets the same data as `fit`."""
    evaluations = [call for call in calls_named(module, "evaluate") if call.receiver is not None]
    if len(evaluations) != 1 or len(trained) != 1:
        return
    evaluation, fit = evaluations[0], trained[0]
    given, data = evaluation.expression("x", 0), fit.expression("x", 0)
    if given is None or data is None or module.text(given) != module.text(data):
        return
    if module.text(evaluation.receiver or given) != module.text(fit.receiver or data):
        return
    if fit.expression("validation_data") is None:
        return
    if not _names_training(given) and not (_is_named_training(given) and _is_named_test(module, evaluation)):
        return
    yield rule.hit(
        module.span(given),
        f"`evaluate` gets `{module.excerpt(given, 50)}`, on which the model is trained.",
        remedy="Pass the data that are kept for the test.",
    )


def _is_named_training(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and bool(_TRAINING.search(node.id)) and not _HELD_OUT.search(node.id)


def _is_named_test(module: Module, call: Call) -> bool:
    """Whether the results of an evaluation are named as those of a test: `test_loss, test_acc = ...`."""
    match module.parent(call.node):
        case ast.Assign(targets=[ast.Name() as target]):
            names = [target]
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            names = [element for element in elements if isinstance(element, ast.Name)]
        case _:
            return False
    return any(re.match(r"test(_|$)", name.id) for name in names)


def _names_training(node: ast.expr) -> bool:
    """Whether an argument names the training data: `dataset("train")`."""
    return any(
        isinstance(child, ast.Constant) and child.value in ("train", "training") for child in ast.walk(node)
    )


def _twins(module: Module) -> Hits:
    """Data for evaluation that the same call reads as the training data: `valid = load("train")`, `load(rows[:split])`."""
    found = [
        item
        for item in _assigned(module, all_calls(module))
        if item.call.node.args and (_TRAINING.search(item.name) or _HELD_OUT.search(item.name))
    ]
    training = [item for item in found if not _HELD_OUT.search(item.name)]
    for name, call in found if training else ():
        first = call.node.args[0]
        is_part = (
            _names_training(first)
            if isinstance(first, ast.Constant)
            else (isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Slice))
        )
        if not is_part or not _HELD_OUT.search(name) or _TRAINING.search(name) or "DataLoader" in call.method:
            continue
        for other, twin in training:
            same = module.text(twin.node.func) == module.text(call.node.func)
            if (
                same
                and module.text(twin.node.args[0]) == module.text(first)
                and _options(twin) == _options(call)
                and _same_place(module, twin, call)
            ):
                yield rule.hit(
                    module.span(first),
                    f"`{name}` is read from `{module.text(first)}`, as `{other}` is: the model is evaluated on its training data.",
                    remedy="Read the part that is kept for evaluation.",
                )
                break


def _options(call: Call) -> dict[str, str]:
    """The keywords of a call that may select a part of the data."""
    return {
        name: call.module.text(value) for name, value in call.keywords.items() if name not in _NO_SELECTION
    }


def _same_place(module: Module, first: Call, second: Call) -> bool:
    return module.function_of(first.node) is module.function_of(second.node) and not first.is_open


def _assigned(module: Module, calls: list[Call]) -> Iterator[_Assigned]:
    for call in calls:
        match module.parent(call.node):
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
                yield _Assigned(name, call)
            case _:
                pass


def _loaders(module: Module) -> Hits:
    found = list(
        _assigned(
            module, calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
        )
    )
    for name, call in found:
        data = call.expression("dataset", 0)
        if not _HELD_OUT.search(name) or _TRAINING.search(name) or _ON_TRAINING.search(name):
            continue
        if not isinstance(data, (ast.Name, ast.Attribute)) or not _is_plain(call):
            continue
        text = module.text(data)
        if _HELD_OUT.search(text.rpartition(".")[2]) or not _TRAINING.search(text.rpartition(".")[2]):
            continue
        for other, loader in found:
            given = loader.expression("dataset", 0)
            if (
                _TRAINING.search(other)
                and given is not None
                and module.text(given) == text
                and _is_plain(loader)
                and module.function_of(loader.node) is module.function_of(call.node)
                and _same_value(module, given, data)
                and not is_shared_with_lightning(module, call)
            ):
                yield rule.hit(
                    module.span(data),
                    f"`{name}` reads `{text}`, as `{other}` does: the model is evaluated on its training data.",
                    remedy="Pass the dataset that is kept for evaluation.",
                )
                break


def _is_plain(call: Call) -> bool:
    """Whether a loader reads its whole dataset."""
    return (
        not call.is_open
        and call.expression("sampler", 3) is None
        and call.expression("batch_sampler", 4) is None
    )


def _same_value(module: Module, first: ast.expr, second: ast.expr) -> bool:
    if isinstance(first, ast.Name) and isinstance(second, ast.Name):
        return module.reaching(first) == module.reaching(second)
    return True


def _flags(module: Module) -> Hits:
    """Test sets of torchvision with `train=True`, beside a training set of the same class."""
    made = [
        call
        for call in (all_calls(module) if module.imports("torchvision") else ())
        if call.method[:1].isupper() and _DATASET.match(call.name or "")
    ]
    if len(made) < 2 or uses(module, _SPLITS, "call", "name"):
        return
    found = [
        (name, call)
        for name, call in _assigned(module, made)
        if call.argument("train", 1).is_known and call.argument("train", 1).flag is True
    ]
    for name, call in found:
        if (
            re.search(r"(^|_)test", name, re.IGNORECASE)
            and any(
                _TRAINING.search(other) and each.name == call.name
                for other, each in found
                if each is not call
            )
            and not is_shared_with_lightning(module, call)
        ):
            yield rule.hit(
                call.span,
                f"`{name}` is the training part of {call.method}: train=True.",
                remedy="Pass train=False.",
            )
