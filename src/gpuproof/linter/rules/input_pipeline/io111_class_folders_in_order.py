"""A training loader reads a folder for each class in order: whole batches of one class, class after class.

`ImageFolder` sorts its samples by class, and a DataLoader does not shuffle unless it is told to. Each batch then has one label, batch
normalization sees one class at a time, and the model forgets each class while it learns the next; the training loss looks
excellent.

Bad:

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(model, optimizer, device):
        loader = DataLoader(ImageFolder("train"), batch_size=64, num_workers=4)  # <-
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Good:

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(model, optimizer, device):
        loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True, num_workers=4)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Quiet: for evaluation

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def test(model, device):
        loader = DataLoader(ImageFolder("test"), batch_size=64, num_workers=4)
        with torch.no_grad():
            return [model(x.to(device)) for x, y in loader]

Quiet: the classes are not used

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(model, optimizer, device):
        for x, _ in DataLoader(ImageFolder("train"), batch_size=64, num_workers=4):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), x.to(device)).backward()
            optimizer.step()

Quiet: a random part of it

    import torch
    from torch.utils.data import DataLoader, random_split
    from torchvision.datasets import ImageFolder

    def train(model):
        part, rest = random_split(ImageFolder("train"), [0.8, 0.2])
        for x, y in DataLoader(part, batch_size=64, num_workers=4):
            model(x).sum().backward()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO111", "class-folders-in-order", Severity.WARNING, needs=("ImageFolder", "DatasetFolder"))

_FOLDERS = frozenset({"torchvision.datasets.ImageFolder", "torchvision.datasets.DatasetFolder"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torchvision") or is_test(module):
        return
    trained = [
        made
        for loop in module.nodes(ast.For)
        if calls_within(calls_named(module, "backward"), loop) and _uses_labels(loop)
        for made in _loaders(module, loop)
    ]
    for call in calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
        if not any(made.node is call.node for made in trained):
            continue
        ordered = call.argument("shuffle", 2)
        if not (ordered.is_absent or (ordered.is_known and ordered.flag is False)):
            continue
        if call.expression("sampler", 3) is not None or call.expression("batch_sampler", 4) is not None:
            continue
        datasets = creations(module, call.expression("dataset", 0))
        if not datasets or any(made.name not in _FOLDERS for made in datasets):
            continue
        yield rule.hit(
            call.span,
            f"`{datasets[0].method}` is sorted by class, and this loader does not shuffle: each batch has one class.",
            remedy="Pass shuffle=True.",
            fix=Fix("Pass shuffle=True", (add_keyword(call, "shuffle=True"),)) if ordered.is_absent else None,
        )


def _uses_labels(loop: ast.For) -> bool:
    """Whether the loop does something with the labels; where it ignores them, the classes do not matter."""
    names = [node for node in ast.walk(loop.target) if isinstance(node, ast.Name)]
    return bool(names) and not names[-1].id.startswith("_")


def _loaders(module: Module, loop: ast.For) -> list[Call]:
    """The calls that create what a loop runs over, also inside `enumerate` and the like."""
    node = loop.iter
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("enumerate", "tqdm")
    ):
        if not node.args:
            return []
        node = node.args[0]
    return creations(module, node)
