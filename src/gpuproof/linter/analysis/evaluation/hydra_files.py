"""The settings that Hydra composes for a script, with the overrides of the command line of its only job.

Source: https://hydra.cc/docs/advanced/defaults_list and https://hydra.cc/docs/advanced/override_grammar/basic.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.linter.analysis.evaluation.settings_files import read_settings_file
from gpuproof.linter.analysis.evaluation.settings_text import as_default, of_plain, overlay
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, argument_node
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, known

MAX_DEPTH = 12
_OVERRIDE = re.compile(r"^(\+\+|\+|~)?([\w./@-]+)(?:=(.*))?$", re.DOTALL)
_NUMBER = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": "none"}
_PACKAGE = "# @package"


class HydraFiles(NamedTuple):
    """Where `@hydra.main` looks for the settings.

    Attributes:
        folder: the folder of the configurations.
        name: the primary configuration.
    """

    folder: Path
    name: str


class Override(NamedTuple):
    """One override on the command line: `optimizer.lr=0.1`, `+trainer.fast=true`, `model=resnet`, `~logger`.

    Attributes:
        prefix: `+` for a key that is new, `++` for one that may be, `~` for one that is removed, else empty.
        value: the text after `=`; None without one.
    """

    prefix: str
    key: str
    value: str | None


def hydra_files(module: Module, function: FunctionNode) -> HydraFiles | None:
    """The files that the decorator `@hydra.main(config_path=..., config_name=...)` of a function names; None without it."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and module.qualified(decorator.func) == "hydra.main":
            folder = _constant(argument_node(decorator, "config_path", 0)) or ""
            name = _constant(argument_node(decorator, "config_name", 1)) or ""
            return HydraFiles(module.unit.absolute.parent / folder, name.removesuffix(".yaml"))
    return None


def hydra_settings(module: Module, function: FunctionNode) -> Value | None:
    """The settings that `@hydra.main` passes to a function; None without this decorator.

    They are known if the command line of the only job that runs the script is; otherwise, each may be overridden.
    """
    files = hydra_files(module, function)
    if files is None:
        return None
    words = module.loader.job_arguments(module.unit)
    overrides = read_overrides(words) if words is not None else None
    if overrides is None:
        return as_default(composed(module, files))
    return with_overrides(module, files, overrides)


def read_overrides(words: Sequence[str | None]) -> list[Override] | None:
    """The overrides of a command line; None if it has options, unknown words or several values for a key."""
    found: list[Override] = []
    for word in words:
        match = _OVERRIDE.match(word) if word is not None else None
        if match is None or "," in re.sub(r"\[.*\]|\{.*\}|\".*\"|'.*'", "", match[3] or ""):
            return None
        found.append(Override(match[1] or "", match[2], match[3]))
    return found


def is_group(files: HydraFiles, key: str) -> bool:
    """Whether the key of an override names a folder with configurations to choose from."""
    return "." not in key and any(True for _ in options(files, key))


def options(files: HydraFiles, group: str) -> Iterator[str]:
    """The configurations of a group."""
    folder = files.folder / group
    if folder.is_dir():
        yield from sorted(path.stem for path in folder.glob("*.yaml"))


def composed(module: Module, files: HydraFiles, choices: Mapping[str, str] | None = None) -> Value:
    """The settings without overrides; its keys are complete only if every file of the defaults lists is known.

    Args:
        choices: configurations that replace those of the defaults list, by group.
    """
    if not files.name:
        return UNKNOWN
    return _composed(module, files.folder, files.name, choices or {}, 0)


def with_overrides(module: Module, files: HydraFiles, overrides: Sequence[Override]) -> Value:
    """The settings with the overrides of one command line."""
    choices = {
        item.key: item.value or ""
        for item in overrides
        if item.value is not None and is_group(files, item.key)
    }
    value = composed(module, files, choices)
    if value.entries is None:
        return UNKNOWN
    for item in overrides:
        if item.key in choices or item.key.startswith("hydra"):
            continue
        if item.prefix == "~" or "@" in item.key or "/" in item.key:
            return as_default(value)
        value = overlay(value, _nested(item.key.split("."), _scalar(item.value or "")))
    return value


def _composed(module: Module, base: Path, name: str, choices: Mapping[str, str], depth: int) -> Value:
    """A configuration with those in its `defaults` list, each under the name of its group."""
    own = read_settings_file(module, base / f"{name}.yaml", "omegaconf")
    if own.entries is None or depth > MAX_DEPTH:
        return UNKNOWN
    group = name.rpartition("/")[0]
    values: list[Value] = []
    for item in own.at("defaults").items or ():
        if item.text is not None and item.text != "_self_":
            values.append(_composed(module, base, _within(group, item.text), choices, depth + 1))
        for key, choice in item.parts.items():
            words = str(key).removeprefix("override ").removeprefix("optional ").strip("/")
            values.append(_chosen(module, base, _within(group, words), words, choice, choices, depth))
    rest = {key: value for key, value in own.entries.items() if key not in ("defaults", "hydra")}
    return overlay(known(Entries()), *values, known(Entries(rest), own.span))


def _chosen(
    module: Module,
    base: Path,
    group: str,
    words: str,
    choice: Value,
    choices: Mapping[str, str],
    depth: int,
) -> Value:
    """What one entry of a defaults list adds."""
    if choice.is_known and choice.value is None and group not in choices:
        return known(Entries())
    text = choices.get(group, choice.text)
    if text is None or "@" in words:
        return UNKNOWN
    if words.startswith("hydra"):
        return known(Entries())
    name = f"{group}/{text.removesuffix('.yaml')}"
    inner = _composed(module, base, name, choices, depth + 1)
    package = _package(module, base / f"{name}.yaml")
    if package == "_global_":
        return inner
    return _nested(words.split("/"), inner) if package is None else UNKNOWN


def _package(module: Module, path: Path) -> str | None:
    """The package that the first line of a configuration names instead of its group: `# @package _global_`."""
    unit = module.loader.settings_file(path)
    first = unit.source.lstrip().partition("\n")[0] if unit is not None else ""
    return first.removeprefix(_PACKAGE).strip() if first.startswith(_PACKAGE) else None


def _within(group: str, name: str) -> str:
    """A name of a defaults list as a path below the folder; an absolute one starts with a slash."""
    return name.strip("/") if name.startswith("/") or not group else f"{group}/{name}"


def _nested(keys: Sequence[str], value: Value) -> Value:
    for key in reversed(keys):
        value = known(Entries({key: value}))
    return value


def _scalar(text: str) -> Value:
    if text.lower() in _WORDS:
        return of_plain(_WORDS[text.lower()])
    if _NUMBER.match(text):
        return known(float(text) if re.search(r"[.eE]", text) else int(text))
    if text[:1] in ("'", '"') and text[:1] == text[-1:]:
        return known(text[1:-1])
    return known(text) if text and not re.search(r"[\[\]{}$(),]", text) else UNKNOWN


def _constant(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
