"""Lightning validates or tests on the data that it trains on: the metric that chooses the model says nothing.

The same loader is passed twice, `val_dataloader` returns a loader of the training dataset, or both datasets are created by
the same call (`MNIST(root, train=True)`). Early stopping and ModelCheckpoint then follow the training loss: they keep an
overfitted model, and the run looks better than it is. Loaders that select by `sampler=` are not reported, nor are subsets.

Bad: the same loader twice

    import lightning as L
    from torch.utils.data import DataLoader
    from data import make_dataset
    from model import Net

    train_loader = DataLoader(make_dataset("train"), batch_size=64, num_workers=4, shuffle=True)
    val_loader = DataLoader(make_dataset("val"), batch_size=64, num_workers=4)
    L.Trainer(max_epochs=3).fit(Net(), train_loader, train_loader)  # <-

Bad: a data module

    import lightning as L
    from torch.utils.data import DataLoader, random_split

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set, self.val_set = random_split(self.dataset, [0.9, 0.1])

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, num_workers=4)  # <-

Bad: both are the training half of MNIST

    import lightning as L
    from torch.utils.data import DataLoader
    from torchvision.datasets import MNIST

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set = MNIST("data", train=True)
            self.val_set = MNIST("data", train=True)

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.val_set, batch_size=64, num_workers=4)  # <-

Good:

    import lightning as L
    from torch.utils.data import DataLoader
    from torchvision.datasets import MNIST

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set = MNIST("data", train=True)
            self.val_set = MNIST("data", train=False)

        def train_dataloader(self):
            return DataLoader(self.train_set, batch_size=64, shuffle=True, num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.val_set, batch_size=64, num_workers=4)

Bad: a helper of the data module

    import lightning as L
    from torch.utils.data import DataLoader

    class Data(L.LightningDataModule):
        def setup(self, stage=None):
            self.train_set, self.val_set = self.split()

        def loader(self, dataset, shuffle=False):
            return DataLoader(dataset, batch_size=64, shuffle=shuffle, num_workers=4)

        def train_dataloader(self):
            return self.loader(self.train_set, shuffle=True)

        def val_dataloader(self):
            return self.loader(self.train_set)  # <-

Quiet: a helper selects the part

    import lightning as L
    from torch.utils.data import DataLoader

    class Data(L.LightningDataModule):
        def loader(self, rows, part):
            return DataLoader(rows.of(part), batch_size=64, num_workers=4)

        def train_dataloader(self):
            return self.loader(self.rows, "train")

        def val_dataloader(self):
            return self.loader(self.rows, "val")

Quiet: samplers select

    import lightning as L
    from torch.utils.data import DataLoader, SubsetRandomSampler

    class Data(L.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(self.dataset, batch_size=64, sampler=SubsetRandomSampler(self.train_ids), num_workers=4)

        def val_dataloader(self):
            return DataLoader(self.dataset, batch_size=64, sampler=SubsetRandomSampler(self.val_ids), num_workers=4)

Quiet: overfitting on purpose

    import lightning as L
    from model import Net, loader

    L.Trainer(max_epochs=3, overfit_batches=10).fit(Net(), loader, loader)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.creations import creations, returned_values
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import is_same_variable
from gpuproof.linter.knowledge.torch import is_test
from gpuproof.linter.knowledge.trainers.lightning import Owner, attribute_values, hooks, owners, runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("LT104", "validation-on-training-data", Severity.WARNING, needs=("lightning",))

_GRAPHS = ("torch_geometric", "dgl")
"""Libraries for graphs: one graph has the nodes for training and validation, which masks select."""
_EVALUATION = {"val_dataloader": "validation", "test_dataloader": "test"}


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or module.imports(*_GRAPHS):
        return
    for owner in owners(module, "LightningModule", "LightningDataModule"):
        yield from _of_class(module, owner)
    for run in runs(module, "fit"):
        call = run.call
        training = call.expression("train_dataloaders", 1)
        validation = call.expression("val_dataloaders", 2)
        if training is None or validation is None or not run.trainer.argument("overfit_batches").is_absent:
            continue
        if _is_same(module, training, validation):
            yield rule.hit(
                module.span(validation),
                f"`fit` validates on `{module.text(validation)}`, which reads the data that it trains on.",
                remedy="Pass a loader of data that training does not read.",
            )


def _of_class(module: Module, owner: Owner) -> Hits:
    methods = hooks(owner)
    if "train_dataloader" not in methods:
        return
    training = _loader(module, owner, "train_dataloader")
    for name, what in _EVALUATION.items():
        if name not in methods:
            continue
        loaded = _loader(module, owner, name)
        if loaded is None or training is None:
            continue
        if loaded is training:
            yield rule.hit(
                module.span(methods[name].body[-1]),
                f"`{name}` returns the training loader: the {what} metrics are those of the training data.",
                remedy="Return a loader of data that training does not read.",
            )
        elif _reads_same(module, owner, training, loaded):
            yield rule.hit(
                loaded.span,
                f"`{name}` reads the dataset of `train_dataloader`: the {what} metrics are those of the training data.",
                remedy="Return a loader of data that training does not read.",
            )


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
