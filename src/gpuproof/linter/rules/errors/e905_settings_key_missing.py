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

Bad: in a function that receives the settings

    # file: train.py
    import torch
    import yaml
    from model import build

    class Trainer:
        def __init__(self, cfg):
            self.cfg = cfg
            self.net = build(cfg["model"])

        def fit(self):
            return torch.optim.SGD(self.net.parameters(), lr=self.cfg["optim"]["learning_rate"])  # <-

    def main():
        with open("config.yaml") as file:
            cfg = yaml.safe_load(file)
        Trainer(cfg).fit()

    main()
    # file: model.py
    import torch

    def build(cfg):
        return torch.nn.Linear(cfg["width"], cfg["classes"])  # <-
    # file: config.yaml
    model: {width: 64}
    optim: {lr: 0.01}

Bad: Hydra, where the job's command is known

    # file: run.sh
    #SBATCH --gpus=1
    python train.py optim.lr=0.1
    # file: train.py
    import hydra

    @hydra.main(config_path="conf", config_name="config", version_base=None)
    def main(cfg):
        print(cfg.optim.lr, cfg.optim.momentum)  # <-

    main()
    # file: conf/config.yaml
    optim: {lr: 0.01}

Bad: a plain mapping has no attributes

    # file: train.py
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)
    print(config.epochs)  # <-
    # file: config.yaml
    epochs: 3

Quiet: another function adds the key, or a command adds it

    # file: run.sh
    #SBATCH --gpus=1
    python train.py +seed=3
    # file: train.py
    import hydra

    def prepare(cfg):
        cfg.optim.momentum = 0.9

    @hydra.main(config_path="conf", config_name="config", version_base=None)
    def main(cfg):
        prepare(cfg)
        print(cfg.optim.momentum, cfg.seed, cfg.keys(), cfg.get("name"))

    main()
    # file: conf/config.yaml
    optim: {lr: 0.01}
"""

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.evaluation.frames import assigned_attributes
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.values import Entries
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.knowledge.settings import Settings, changed_keys, settings_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule(
    "E905",
    "settings-key-missing",
    Severity.ERROR,
    needs=("load", "hydra", "cfg", "conf", "settings", "params", "options"),
)

_NAMED = re.compile(r"cfg|conf|setting|param|option|^opts?$|hyper|^hp$|spec|recipe|^args$")
_LOADS = ("load", "safe_load", "full_load", "unsafe_load", "load_all", "loads")
_LIBRARIES = ("yaml", "json", "tomllib", "toml", "tomli", "omegaconf", "ruamel.yaml", "hydra", "ruamel")

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
    # The program of a file takes long to find: only for files that read something of what may be settings.
    if not _loads(module):
        receives = module.imports("torch", "tensorflow", "keras") and any(
            _NAMED.search(node.arg.lower()) and node.arg != "args" for node in module.nodes(ast.arg)
        )
        if not receives:
            return
    program = program_modules(module)
    if not any(other.imports(*_LIBRARIES) for other in program):
        return
    if any(other.imports("addict", "dotmap", "mock", "unittest.mock") for other in program):
        return
    changed = changed_keys(module)
    for node in module.nodes(ast.Subscript, ast.Attribute):
        if not isinstance(node.ctx, ast.Load) or (key := _key(module, node)) is None:
            continue
        if isinstance(node, ast.Subscript) or module.imports("omegaconf"):
            entries = _loaded_here(module, node)
            if entries is not None and key not in entries:
                yield _hit(module, node, key, entries)
                continue
        if changed is None or key in changed or not _is_named_settings(node.value):
            continue
        if (found := settings_of(module, node.value)) is not None:
            yield from _followed(module, node, key, found)


def _loads(module: Module) -> bool:
    """Whether a module reads a settings file itself."""
    if not module.imports(*_LIBRARIES):
        return False
    return module.imports("hydra") or any(
        (call.name or "").startswith(_LIBRARIES) for call in calls_named(module, *_LOADS)
    )


def _is_named_settings(node: ast.expr) -> bool:
    """Whether the name of an object says that it may have settings: others are not followed, which takes long."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return _NAMED.search(node.attr.lower()) is not None
        node = node.value
    return isinstance(node, ast.Name) and _NAMED.search(node.id.lower()) is not None


def _loaded_here(module: Module, node: ast.Subscript | ast.Attribute) -> Entries | None:
    """The entries of settings that the same function loads, and that no other code gets."""
    root, key = _root(node), _key(module, node)
    if not isinstance(root, ast.Name) or not module.reaching(root) or key is None:
        return None
    value = evaluate(module, node.value)
    entries = value.entries if value.is_known else None
    if entries is None or entries.file is None or not entries.complete:
        return None
    return None if _may_be_added(module, node, root, key) else entries


def _followed(
    module: Module, node: ast.Subscript | ast.Attribute, key: str, settings: Settings
) -> Iterator[Hit]:
    """A finding about settings that are followed through the program; `changed_keys` lists what it adds."""
    entries = settings.value.entries if settings.value.is_known else None
    if entries is None or _expects_absence(module, node, key):
        return
    if isinstance(node, ast.Attribute) and settings.kind == "dict":
        if key in entries:
            text = f"{module.text(node.value)}[{key!r}]"
            yield rule.hit(
                module.span(node),
                f"`{module.text(node.value)}` is a dict, whose entries are not attributes: AttributeError.",
                remedy=f"Write {text}.",
                severity=_severity(module, node),
            )
    elif entries.complete and key not in entries:
        yield _hit(module, node, key, entries)


def _hit(module: Module, node: ast.Subscript | ast.Attribute, key: str, entries: Entries) -> Hit:
    name = entries.file.path.rpartition("/")[2] if entries.file is not None else "the settings"
    near = get_close_matches(key, [other for other in entries if isinstance(other, str)], 1, 0.6)
    where = f"`{module.text(node.value)}` in {name}"
    error = "KeyError" if isinstance(node, ast.Subscript) else "AttributeError"
    return rule.hit(
        module.span(node),
        f"{where} has no `{key}`{f' (it has {near[0]})' if near else ''}: {error}.",
        remedy=f"Use {near[0]} here, or add {key} to {name}." if near else f"Add {key} to {name}.",
        severity=_severity(module, node),
    )


def _severity(module: Module, node: ast.AST) -> Severity:
    """An error where the line certainly runs."""
    function = module.function_of(node)
    is_called = function is not None and bool(known_call_sites(module, function))
    for ancestor in module.tree.ancestors(node):
        if ancestor is function:
            break
        if isinstance(ancestor, (ast.If, ast.IfExp, ast.Lambda, ast.ExceptHandler)):
            is_called = False
    return Severity.ERROR if is_called or always_runs(module, node) else Severity.WARNING


def _key(module: Module, node: ast.Subscript | ast.Attribute) -> str | None:
    """The key that an expression reads; None if it is unknown, or the name of a method."""
    if isinstance(node, ast.Subscript):
        return (
            node.slice.value
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            else None
        )
    parent = module.parent(node)
    is_call = isinstance(parent, ast.Call) and parent.func is node
    if is_call or hasattr(dict, node.attr) or node.attr.startswith("_"):
        return None
    return None if node.attr in module.derived(assigned_attributes) else node.attr


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node


def _may_be_added(module: Module, node: ast.AST, root: ast.Name, key: str) -> bool:
    """Whether other code may add the key, or the code deals with its absence."""
    if _expects_absence(module, node, key):
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


def _expects_absence(module: Module, node: ast.AST, key: str) -> bool:
    """Whether code of the module deals with a missing key: a check, or an error that it catches."""
    if module.enclosing(node, ast.Try) is not None:
        return True
    for compare in module.nodes(ast.Compare):
        if isinstance(compare.left, ast.Constant) and compare.left.value == key:
            return True
    return any(
        callee_name(call) in ("hasattr", "getattr", "select", "is_missing")
        and any(isinstance(part, ast.Constant) and str(part.value).endswith(key) for part in call.args)
        for call in module.nodes(ast.Call)
    )
