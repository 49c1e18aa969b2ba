"""Data that Lightning trains on and also validates or tests on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.creations import creations, returned_values
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import is_same_variable
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import Owner, attribute_values, hooks, owners, runs

_GRAPHS = ("torch_geometric", "dgl")
"""Libraries for graphs: one graph has the nodes for training and validation, which masks select."""
_EVALUATION = {"val_dataloader": "validation", "test_dataloader": "test"}


class SharedData(NamedTuple):
    """An evaluation that reads the training data.

    Attributes:
        node: where it is said.
        hook: the method that returns the loader; None for an argument of `fit`.
        what: validation or test.
        is_same_loader: whether even the loader is that of the training.
        made: the calls that create the loader and its dataset.
    """

    node: ast.AST
    hook: str | None
    what: str
    is_same_loader: bool
    made: tuple[ast.AST, ...]


def shared_data(module: Module) -> list[SharedData]:
    """The evaluations of Lightning that a module describes and that read the training data."""
    return module.derived(_Shared).found


def is_shared_with_lightning(module: Module, call: Call) -> bool:
    """Whether a call creates a loader or dataset that `shared_data` has found, in any module of the program."""
    return any(
        call.node in shared.made
        for other in program_modules(module, "lightning")
        for shared in shared_data(other)
    )


class _Shared:
    def __init__(self, module: Module) -> None:
        is_left_out = is_test(module) or module.imports(*_GRAPHS)
        self.found = [] if is_left_out else [*_of_classes(module), *_of_runs(module)]


def _of_runs(module: Module) -> Iterator[SharedData]:
    for run in runs(module, "fit"):
        call = run.call
        training = call.expression("train_dataloaders", 1)
        validation = call.expression("val_dataloaders", 2)
        if training is None or validation is None or not run.trainer.argument("overfit_batches").is_absent:
            continue
        if _is_same(module, training, validation):
            loader = _created(module, validation)
            yield SharedData(validation, None, "validation", False, _made(loader))


def _of_classes(module: Module) -> Iterator[SharedData]:
    for owner in owners(module, "LightningModule", "LightningDataModule"):
        methods = hooks(owner)
        training = _loader(module, owner, "train_dataloader") if "train_dataloader" in methods else None
        for name, what in _EVALUATION.items() if training is not None else ():
            loaded = _loader(module, owner, name) if name in methods else None
            if loaded is None or training is None:
                continue
            if loaded is training:
                yield SharedData(methods[name].body[-1], name, what, True, ())
            elif _reads_same(module, owner, training, loaded):
                yield SharedData(loaded.node, name, what, False, _made(loaded, owner))


def _made(loader: Call | None, owner: Owner | None = None) -> tuple[ast.AST, ...]:
    """The calls that create a loader and its dataset."""
    if loader is None:
        return ()
    dataset = loader.expression("dataset", 0)
    values = [dataset] if dataset is not None else []
    if owner is not None and isinstance(dataset, ast.Attribute) and _is_self(dataset.value):
        values = list(attribute_values(owner.node, dataset.attr))
    made = [origin_call(loader.module, value) for value in values]
    return (loader.node, *(call.node for call in made if call is not None))


def _loader(module: Module, owner: Owner, name: str) -> Call | None:
    """The call of `DataLoader` that a method returns, also through `return self.train_dataloader()`."""
    returned = returned_values(Definition(module, hooks(owner)[name]))
    if len(returned) != 1:
        return None
    call = origin_call(module, returned[0])
    if call is None:
        return None
    if call.method == "train_dataloader" and name != "train_dataloader" and _is_self(call.receiver):
        return _loader(module, owner, "train_dataloader")
    if call.method == "DataLoader" or (_is_self(call.receiver) and _gets_dataset_only(call)):
        return call
    return None


def _gets_dataset_only(call: Call) -> bool:
    """Whether a helper gets a dataset, and flags or numbers that do not select a part of it."""
    others = [*call.node.args[1:], *call.keywords.values()]
    return len(call.node.args) >= 1 and all(
        isinstance(other, ast.Constant) and isinstance(other.value, (bool, int)) for other in others
    )


def _reads_same(module: Module, owner: Owner, training: Call, other: Call) -> bool:
    """Whether two loaders read the same dataset, and all of it."""
    if training.method != other.method:
        return False
    first, second = training.expression("dataset", 0), other.expression("dataset", 0)
    if first is None or second is None or not (_reads_all(training) and _reads_all(other)):
        return False
    if isinstance(first, ast.Attribute) and isinstance(second, ast.Attribute):
        if not (_is_self(first.value) and _is_self(second.value)):
            return False
        if first.attr == second.attr:
            # One attribute may be set for each stage, or split by the loader.
            return len(list(attribute_values(owner.node, first.attr))) <= 1
        values = [list(attribute_values(owner.node, node.attr)) for node in (first, second)]
        return all(len(found) == 1 for found in values) and _is_same_dataset(
            module, values[0][0], values[1][0]
        )
    return _is_same(module, first, second) or _is_same_dataset(module, first, second)


def _is_same(module: Module, first: ast.expr, second: ast.expr) -> bool:
    """Whether two expressions are the same object, or loaders of the same dataset."""
    if is_same_variable(module, first, second):
        return True
    one, other = _created(module, first), _created(module, second)
    if one is None or other is None or one is other:
        # A helper that creates loaders is one call for several of them.
        made = origin_call(module, first)
        return made is not None and made is origin_call(module, second)
    if one.module is not other.module:
        return False
    module = one.module
    if (
        one.method != "DataLoader"
        or other.method != "DataLoader"
        or not (_reads_all(one) and _reads_all(other))
    ):
        return False
    training, validation = one.expression("dataset", 0), other.expression("dataset", 0)
    if training is None or validation is None:
        return False
    return _is_same(module, training, validation) or _is_same_dataset(module, training, validation)


def _created(module: Module, node: ast.expr) -> Call | None:
    """The one call that creates an object, also in a function of the project."""
    made = creations(module, node)
    return made[0] if len(made) == 1 else origin_call(module, node)


def _is_same_dataset(module: Module, first: ast.expr, second: ast.expr) -> bool:
    """Whether two calls create the training half of the same dataset: `MNIST(root, train=True)` twice."""
    one, other = origin_call(module, first), origin_call(module, second)
    if one is None or other is None or one is other or not one.name or one.name != other.name:
        return False
    for name in ("train", "split", "mode", "image_set"):
        values = one.argument(name), other.argument(name)
        if all(value.is_known for value in values):
            return (
                values[0].value == values[1].value
                and _is_training(values[0].value)
                and _has_same_root(one, other)
            )
    return False


def _is_training(value: object) -> bool:
    return value is True or value == "train"


def _has_same_root(one: Call, other: Call) -> bool:
    roots = one.expression("root", 0), other.expression("root", 0)
    return (roots[0] is None) == (roots[1] is None) and (
        roots[0] is None or roots[1] is None or ast.dump(roots[0]) == ast.dump(roots[1])
    )


def _reads_all(loader: Call) -> bool:
    return all(loader.argument(name).is_unset for name in ("sampler", "batch_sampler"))


def _is_self(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
