"""The code reads a key that its settings file does not have: KeyError, often minutes after the start.

The rule follows the file that the script loads with a path in the project, and reports only what the file certainly lacks:
nothing that other code adds, checks with `in`, or reads in a `try`.

Bad:

    # file: train.py
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)

    epochs = config["train"]["epoch"]  # <-
    # file: config.yaml
    train:
      epochs: 3
      lr: 0.1

Good:

    # file: train.py
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)

    epochs = config["train"]["epochs"]
    # file: config.yaml
    train:
      epochs: 3
      lr: 0.1

Bad: an attribute

    # file: train.py
    from omegaconf import OmegaConf

    config = OmegaConf.load("config.yaml")
    print(config.train.learning_rate)  # <-
    # file: config.yaml
    train:
      epochs: 3
      learning_rates: 0.1

Quiet: a default, a check, an addition

    # file: train.py
    import json

    config = json.load(open("config.json"))
    config["seed"] = 3
    if "warmup" in config:
        print(config["warmup"])
    print(config["seed"], config.get("momentum", 0.9))
    # file: config.json
    {"epochs": 3}

Quiet: a function may add them

    # file: train.py
    import json

    def complete(settings):
        settings.setdefault("momentum", 0.9)

    config = json.load(open("config.json"))
    complete(config)
    print(config["momentum"])
    # file: config.json
    {"epochs": 3}
"""

import ast
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.evaluation.frames import assigned_attributes
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.values import Entries
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("E905", "settings-key-missing", Severity.ERROR, needs=("load",))

_READERS = frozenset(
    [
        "print",
        "len",
        "type",
        "isinstance",
        "dumps",
        "dump",
        "SimpleNamespace",
        "Namespace",
        "EasyDict",
        "to_yaml",
    ]
)
"""Functions that do not change the mapping that they receive."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("yaml", "json", "tomllib", "toml", "tomli", "omegaconf", "ruamel.yaml"):
        return
    if module.imports("addict", "mock", "unittest.mock"):
        return
    for node in module.nodes(ast.Subscript, ast.Attribute):
        if not isinstance(node.ctx, ast.Load) or (key := _key(module, node)) is None:
            continue
        root = _root(node)
        if not isinstance(root, ast.Name) or not module.reaching(root):
            continue
        value = evaluate(module, node.value)
        entries = value.entries if value.is_known else None
        if entries is None or entries.file is None or not entries.complete or key in entries:
            continue
        if _may_be_added(module, node, root, key):
            continue
        yield _hit(module, node, key, entries)


def _hit(module: Module, node: ast.Subscript | ast.Attribute, key: str, entries: Entries) -> Hit:
    assert entries.file is not None
    name = entries.file.path.rpartition("/")[2]
    near = get_close_matches(key, [other for other in entries if isinstance(other, str)], 1, 0.6)
    where = f"`{module.text(node.value)}` in {name}"
    error = "KeyError" if isinstance(node, ast.Subscript) else "AttributeError"
    return rule.hit(
        module.span(node),
        f"{where} has no `{key}`{f' (it has {near[0]})' if near else ''}: {error}.",
        remedy=f"Use {near[0]} here, or add {key} to {name}." if near else f"Add {key} to {name}.",
        severity=Severity.ERROR if always_runs(module, node) else Severity.WARNING,
    )


def _key(module: Module, node: ast.Subscript | ast.Attribute) -> str | None:
    """The key that an expression reads; None if it is unknown, or the name of a method."""
    if isinstance(node, ast.Subscript):
        return (
            node.slice.value
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            else None
        )
    if not module.imports("omegaconf") or hasattr(dict, node.attr) or node.attr.startswith("_"):
        return None
    return None if node.attr in module.derived(assigned_attributes) else node.attr


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node


def _may_be_added(module: Module, node: ast.AST, root: ast.Name, key: str) -> bool:
    """Whether other code may add the key, or the code deals with its absence."""
    if module.enclosing(node, ast.Try) is not None:
        return True
    for compare in module.nodes(ast.Compare):
        if isinstance(compare.left, ast.Constant) and compare.left.value == key:
            return True
    for use in module.tree.uses_of(root.id):
        parent = module.parent(use)
        around = (
            module.parent(parent) if isinstance(parent, ast.keyword) and parent.arg is not None else parent
        )
        if isinstance(around, ast.Call) and use is not around.func and callee_name(around) not in _READERS:
            return True
        if isinstance(parent, (ast.Assign, ast.Return, ast.List, ast.Tuple, ast.Dict)):
            return True
    return False
