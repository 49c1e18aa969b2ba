"""The parameters of calls of torch, Keras and transformers by version, and what is wrong with a call of one."""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.framework_version import Ternary

_FILE = Path(__file__).parents[2] / "data" / "call_signatures.json"


class Parameters(NamedTuple):
    """The parameters of a call in one version.

    Attributes:
        positional: the names that can be passed by position, in order.
        names: all names, in order.
        required: names without which the call fails.
        takes_any_position, takes_any_name: whether `*args` or `**kwargs` may take more.
    """

    positional: tuple[str, ...]
    names: tuple[str, ...]
    required: frozenset[str]
    takes_any_position: bool
    takes_any_name: bool


class Mismatch(NamedTuple):
    """What is wrong with a call.

    Attributes:
        problem: the reason, as the end of a sentence.
        remedy: what to write instead; empty if that is not known.
        node: the argument, or the call.
        renamed: the parameter that was probably meant.
    """

    problem: str
    remedy: str
    node: ast.AST
    renamed: str | None = None


def known_calls(package: str) -> frozenset[str]:
    """The names of the calls of a package in the table: `torch.optim.Adam`; `keras.Model:fit` for methods."""
    return _by_package().get(package, frozenset())


def calls_that_may_be(module: Module, names: frozenset[str]) -> list[Call]:
    """The calls of a module whose last name is that of one of these calls, also through `import ... as`."""
    lasts = _last_names(names)
    written = {alias for last in lasts & module.aliases.keys() for alias in module.aliases[last]}
    return [call for call in all_calls(module) if call.method in lasts or call.method in written]


def find_mismatch(
    call: Call, name: str, at_least: Callable[[str], Ternary], *, holder: str = ""
) -> Mismatch | None:
    """What is wrong with a call in every version that may run it; None if nothing is, in one of them.

    Args:
        name: its name in the table.
        at_least: whether a version of the package or a newer one runs it.
        holder: its name in messages, if that is not the last part of `name`.
    """
    package = name.partition(".")[0]
    title = holder or name.rpartition(".")[2]
    problems = {
        text: _mismatch(call, _read(text), title) if text != "-" else None
        for text in _table()["calls"][name].values()
    }
    # Which versions may run the call matters only where they differ, and costs more to find out.
    if None not in problems.values():
        return list(problems.values())[-1]
    if not any(problems.values()):
        return None
    possible = [problems.get(text) for text in _texts(package, name, at_least)]
    return possible[-1] if possible and None not in possible else None


def _texts(package: str, name: str, at_least: Callable[[str], Ternary]) -> list[str]:
    """The signatures of the versions that may run a call: neither certainly newer nor certainly older ones."""
    versions, eras = _table()["versions"][package], _table()["calls"][name]
    text, found = "-", list[str]()
    answers = [at_least(version) for version in versions]
    for index, version in enumerate(versions):
        text = eras.get(version, text)
        too_old = index + 1 < len(versions) and answers[index + 1] == "yes"
        # A version between two that were read may be like either.
        too_new = index > 0 and answers[index] == "no" and answers[index - 1] == "no"
        if not too_old and not too_new:
            found.append(text)
    return found


def _mismatch(call: Call, parameters: Parameters, title: str) -> Mismatch | None:
    node = call.node
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    has_more = any(keyword.arg is None for keyword in node.keywords)
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in parameters.names or parameters.takes_any_name:
            continue
        close = difflib.get_close_matches(keyword.arg, parameters.names, 1, 0.75)
        remedy = (
            f"Write {close[0]}=."
            if close
            else f"Its parameters: {', '.join(parameters.names[:12])}{', …' if len(parameters.names) > 12 else '.'}"
        )
        return Mismatch(
            f"`{title}` has no parameter `{keyword.arg}`", remedy, keyword, close[0] if close else None
        )
    if len(node.args) > len(parameters.positional) and not parameters.takes_any_position:
        return Mismatch(
            f"`{title}` takes {len(parameters.positional)} arguments by position, not {len(node.args)}",
            f"By position: {', '.join(parameters.positional) or 'none'}.",
            node,
        )
    given = {keyword.arg for keyword in node.keywords}
    twice = given & set(parameters.positional[: len(node.args)])
    if twice:
        name = sorted(str(each) for each in twice)[0]
        return Mismatch(f"`{title}` gets `{name}` twice: by position and by name", f"Remove {name}=.", node)
    missing = parameters.required - given - set(parameters.positional[: len(node.args)])
    if missing and not has_more and not parameters.takes_any_position:
        names = [name for name in parameters.names if name in missing]
        return Mismatch(
            f"`{title}` needs {', '.join(f'`{name}`' for name in names)}", f"Pass {names[0]}=.", node
        )
    return None


@cache
def _read(text: str) -> Parameters:
    words, more, keyword_only = text.split(), set[str](), False
    positional: list[str] = []
    names: list[str] = []
    for word in words:
        if word in ("*args", "**"):
            more.add(word)
        elif word == "*":
            keyword_only = True
        else:
            names.append(word.rstrip("!"))
            if not keyword_only:
                positional.append(word.rstrip("!"))
    required = frozenset(word.rstrip("!") for word in words if word.endswith("!"))
    return Parameters(tuple(positional), tuple(names), required, "*args" in more, "**" in more)


@cache
def _table() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    return json.loads(_FILE.read_text(encoding="utf-8"))


@cache
def _last_names(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


@cache
def _by_package() -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for name in _table()["calls"]:
        groups.setdefault(name.partition(".")[0], set()).add(name)
    return {package: frozenset(names) for package, names in groups.items()}
