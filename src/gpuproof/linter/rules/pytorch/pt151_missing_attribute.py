"""The script of a job uses a name that a module or class of its own project does not have: ImportError or AttributeError.

`config.learning_rate` of a class whose field is `lr`, or `from utils import accuracy_score` after the function was renamed, ends the job.
pyright finds both in any file; here, the job says that the code runs.

Bad:

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: config.py
    from dataclasses import dataclass

    @dataclass
    class Config:
        lr: float = 1e-3
        epochs: int = 3
    # file: train.py
    import torch
    from config import Config

    def main():
        config = Config(epochs=5)
        model = torch.nn.Linear(4, 1).cuda()
        return torch.optim.SGD(model.parameters(), lr=config.learning_rate)  # <-

    main()

Good:

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: config.py
    from dataclasses import dataclass

    @dataclass
    class Config:
        lr: float = 1e-3
        epochs: int = 3
    # file: train.py
    import torch
    from config import Config

    def main():
        config = Config(epochs=5)
        model = torch.nn.Linear(4, 1).cuda()
        return torch.optim.SGD(model.parameters(), lr=config.lr)

    main()

Bad: names of a module

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: utils.py
    import torch

    def accuracy(output, target):
        return (output.argmax(1) == target).float().mean()
    # file: train.py
    import torch
    import utils
    from utils import accuracy_score  # <-

    print(utils.top_k(torch.rand(2, 3)))  # <-

Quiet: attributes that are set somewhere, unknown bases, checks

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: state.py
    import torch

    class State:
        def __init__(self):
            self.step = 0

    class Net(torch.nn.Module):
        pass
    # file: train.py
    import torch
    from state import Net, State

    try:
        from state import Fast
    except ImportError:
        Fast = Net

    state = State()
    state.best = 0.0
    print(state.step, state.best, Net().training, getattr(state, "name", None))

Quiet: an object with the name of its module, one name for two modules, generated modules

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: text/__init__.py
    from .lexicon import Lexicon

    lexicon = Lexicon()
    # file: text/lexicon.py
    class Lexicon:
        def lookup(self, word):
            return [word]
    # file: text/cleaners.py
    from . import lexicon

    def clean(word):
        return lexicon.lookup(word)
    # file: first/arguments.py
    def first_arguments():
        return []
    # file: second/arguments.py
    def second_arguments():
        return []
    # file: protos/__init__.py
    VERSION = 1
    # file: train.py
    import torch
    from protos import labels_pb2
    from text.cleaners import clean

    def first():
        from first import arguments

        return arguments.first_arguments()

    def second():
        from second import arguments

        return arguments.second_arguments()

    print(clean("a"), first(), second(), labels_pb2.Label())

Quiet: a submodule

    # file: run.sh
    #SBATCH --gpus=1
    srun python train.py
    # file: lib/__init__.py
    VERSION = 1
    # file: lib/nets.py
    import torch
    # file: train.py
    import torch
    from lib import VERSION, nets

    print(VERSION, nets)
"""

import ast
import sys
from collections.abc import Iterator
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.flow.sources import class_of
from gpuproof.linter.analysis.members import class_members, module_has
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule, lowered
from gpuproof.linter.source.test_files import is_test_file

rule = Rule("PT151", "missing-attribute", Severity.ERROR, when="link", needs=("import",))


_GENERATED = ("_pb2", "_pb2_grpc")
"""Endings of modules that protoc generates."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not project.jobs_running(module) or module.unit.kind not in ("python", "cell-file"):
        return
    if not is_test_file(module.unit):
        yield from _imports(module)
        yield from _attributes(module)


def _imports(module: Module) -> Iterator[Hit]:
    """Names that `from x import name` does not find."""
    for node in module.nodes(ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        other = module.loader.imported_module(module, base) if node.module else None
        if (
            other is None
            or other is module
            or _is_guarded(module, node)
            or _is_elsewhere(module, node, other)
        ):
            continue
        for alias in node.names:
            dotted = f"{base}.{alias.name}"
            if alias.name.endswith(_GENERATED):
                continue
            if alias.name == "*" or module_has(other, alias.name) or _is_module(module, other, dotted):
                continue
            yield _hit(module, alias, other.title, alias.name, _names(other), "ImportError")


def _attributes(module: Module) -> Iterator[Hit]:
    for node in module.nodes(ast.Attribute):
        if (
            not isinstance(node.ctx, ast.Load)
            or node.attr.startswith("__")
            or not isinstance(node.value, ast.Name)
        ):
            continue
        if _is_guarded(module, node):
            continue
        other = _module_of(module, node.value)
        if other is not None:
            dotted = f"{module.names.imports[node.value.id]}.{node.attr}"
            if not module_has(other, node.attr) and not _is_module(module, other, dotted):
                yield _hit(module, node, other.title, node.attr, _names(other), "AttributeError")
            continue
        owner = (
            class_of(module, node.value)
            if node.value.id not in ("self", "cls") and module.reaching(node.value)
            else None
        )
        members = class_members(owner) if owner is not None else None
        if owner is not None and members is not None and node.attr not in members:
            yield _hit(module, node, f"`{owner.node.name}`", node.attr, members, "AttributeError")


def _hit(module: Module, node: ast.AST, owner: str, name: str, others: frozenset[str], error: str) -> Hit:
    near = get_close_matches(name, sorted(others), 1, 0.6)
    return rule.hit(
        module.span(node),
        f"{owner} has no `{name}`{f' (it has {near[0]})' if near else ''}: {error}.",
        remedy=f"Use {near[0]}." if near else f"Define {name}, or remove this use.",
        severity=rule.severity if _runs(module, node) else lowered(rule.severity),
    )


def _runs(module: Module, node: ast.AST) -> bool:
    function = module.function_of(node)
    for ancestor in module.tree.ancestors(node):
        if ancestor is function:
            break
        is_main = isinstance(ancestor, ast.If) and "__main__" in module.text(ancestor.test)
        if isinstance(ancestor, (ast.If, ast.IfExp, ast.Lambda, ast.ExceptHandler)) and not is_main:
            return False
    return function is None or bool(known_call_sites(module, function))


def _is_guarded(module: Module, node: ast.AST) -> bool:
    """Whether code catches errors around a node, or asks for attributes with `hasattr`."""
    for ancestor in module.tree.ancestors(node):
        if isinstance(ancestor, ast.Try):
            return True
        if isinstance(ancestor, (ast.If, ast.IfExp)) and "hasattr" in module.text(ancestor.test):
            return True
    return False


def _module_of(module: Module, node: ast.Name) -> Module | None:
    """The module of the project that a name stands for."""
    dotted = module.names.imports.get(node.id)
    if dotted is None or module.binds(node.id) or _is_imported_twice(module, node.id):
        return None
    other = module.loader.imported_module(module, dotted)
    if other is None or other is module:
        return None
    holder, _, last = dotted.rpartition(".")
    # `from . import nets` has the holder "", `from .. import nets` the holder ".".
    package = module.loader.imported_module(module, holder if holder.strip(".") else f"{holder}.")
    # `from lib import nets`, where lib itself has a name nets.
    is_own = package is not None and package is not other and module_has(package, last)
    return (
        None if is_own or package is other or dotted.partition(".")[0] in sys.stdlib_module_names else other
    )


def _is_imported_twice(module: Module, name: str) -> bool:
    """Whether functions of a module import different things under one name."""
    return (
        len(
            {
                (node.level, node.module, alias.name)
                for node in module.nodes(ast.ImportFrom)
                for alias in node.names
                if name == (alias.asname or alias.name)
            }
        )
        > 1
    )


def _is_elsewhere(module: Module, node: ast.ImportFrom, other: Module) -> bool:
    """Whether an absolute import may mean a library: a module of a package does not see its neighbours that way."""
    if node.level or not node.module:
        return False
    root = node.module.partition(".")[0]
    folder = module.unit.absolute.parent
    is_neighbour = other.unit.absolute.parent in (folder, folder / root)
    return root in sys.stdlib_module_names or (is_neighbour and (folder / "__init__.py").exists())


def _is_module(module: Module, other: Module, dotted: str) -> bool:
    """Whether a dotted name is a module itself: a file beside the package's `__init__`."""
    found = module.loader.imported_module(module, dotted)
    if found is not None and found is not other:
        return True
    last = dotted.rpartition(".")[2]
    folder = other.unit.absolute.parent
    is_package = other.unit.absolute.name == "__init__.py"
    # A compiled extension may be only there as its source.
    return is_package and ((folder / last).exists() or any(True for _ in folder.glob(f"{last}.*")))


def _names(module: Module) -> frozenset[str]:
    return frozenset(module.names.bindings(module.tree.root)) | frozenset(module.names.imports)
