"""Which framework a script uses, by the imports of its own files: the other one need not be imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_TENSORFLOW = frozenset({"tensorflow", "keras", "tf_keras", "keras_hub", "keras_cv", "keras_nlp"})
_TORCH = frozenset(
    {
        "torch",
        "torchvision",
        "timm",
        "transformers",
        "diffusers",
        "accelerate",
        "lightning",
        "pytorch_lightning",
    }
)
_STEPS = frozenset({"fit", "train_on_batch", "GradientTape"})
_MOST_FILES = 200
_PREDICTING = frozenset({"no_grad", "inference_mode", "eval", "predict", "evaluate", "generate"})
_TRAINING = frozenset(
    {
        *("backward", "fit", "train_on_batch", "GradientTape", "minimize", "apply_gradients", "train"),
        *("optim", "optimizers", "Trainer", "SFTTrainer", "Seq2SeqTrainer", "trl", "deepspeed", "grad"),
    }
)
"""Names without which nothing trains, except within another package."""
_BACKEND, _LEGACY = "KERAS_BACKEND", "TF_USE_LEGACY_KERAS"


def frameworks_of(script: Path) -> frozenset[str]:
    """`torch`, `tensorflow` or none; of a script that imports both, the one that it trains with.

    Args:
        script: whose imports count, with those of the files beside it that it imports.
    """
    names = _names_of(script)
    first = {name.partition(".")[0] for name in names.imported}
    found: set[str] = {"tensorflow"} if first & _TENSORFLOW else set()
    found |= {"torch"} if first & _TORCH else set()
    if len(found) > 1:
        found = {"tensorflow"} if names.used & _STEPS and "backward" not in names.used else {"torch"}
    return frozenset(found)


def only_predicts(script: Path) -> bool:
    """Whether a script certainly does not train: it predicts, and nothing in its files could train a model."""
    names = _names_of(script)
    words = names.used | {part for name in names.imported for part in name.split(".")}
    return bool(words & _PREDICTING) and not words & _TRAINING


def keras_settings(script: Path) -> tuple[str, bool]:
    """Backend of Keras, and whether Keras 2 is asked for: by the environment, or by what the script sets in it."""
    given = {name: os.environ.get(name, "") for name in (_BACKEND, _LEGACY)}
    tree = _parsed(script)
    for node in ast.walk(tree) if tree is not None else ():
        for name, value in _assigned(node):
            if name in given:
                given[name] = value
    return given[_BACKEND] or "tensorflow", given[_LEGACY].lower() in ("1", "true")


class _Names(NamedTuple):
    """Names in a script and the files beside it that it imports.

    Args:
        imported: modules, and what is imported from them.
        used: attributes and names.
    """

    imported: set[str]
    used: set[str]


def _names_of(script: Path) -> _Names:
    found = _Names(set(), set())
    pending, seen = [script], {script}
    while pending and len(seen) < _MOST_FILES:
        tree = _parsed(pending.pop())
        if tree is None:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                found.used.add(node.attr)
            elif isinstance(node, ast.Name):
                found.used.add(node.id)
        for name in _imports(tree):
            found.imported.add(name)
            for file in _local(script.parent, name):
                if file not in seen:
                    seen.add(file)
                    pending.append(file)
    return found


def _parsed(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module:
                yield node.module
            if node.level or node.module:
                prefix = f"{node.module}." if node.module else ""
                yield from (prefix + alias.name for alias in node.names)


def _local(folder: Path, name: str) -> Iterator[Path]:
    path = folder.joinpath(*name.split("."))
    yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file())


def _assigned(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Variables of the environment that a statement sets to a constant."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key, value = node.targets[0].slice, node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) > 1:
        if node.func.attr not in ("setdefault", "putenv"):
            return
        key, value = node.args[0], node.args[1]
    else:
        return
    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
        yield str(key.value), str(value.value)
