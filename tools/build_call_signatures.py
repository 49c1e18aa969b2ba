"""Writes `src/gpuproof/linter/data/call_signatures.json`: the parameters of calls of torch, Keras and transformers by version.

    pip download --no-deps -d WHEELS keras==2.15.0 ...     # each version that should be in the table
    python tools/build_call_signatures.py WHEELS

A folder of wheels is required, and read without importing them: one for each version; those that are installed are read, too.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from package_sources import Found, PackageSources, Parameters

FILE = Path(__file__).resolve().parent.parent / "src/gpuproof/linter/data/call_signatures.json"
NAMES = FILE.with_name("call_names.csv")
PACKAGES = ("torch", "keras", "transformers")

_KERAS_LAYER = [
    "input_dim",
    "input_shape",
    "batch_input_shape",
    "batch_shape",
    "batch_size",
    "weights",
    "implementation",
]
"""Names that the base class of Keras's layers takes out of `**kwargs`, in one version or another."""
_KERAS_OPTIMIZER = [
    "lr",
    "decay",
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "is_legacy_optimizer",
    "jit_compile",
]


def main() -> int:
    """Read the wheels of a folder and write the table."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    names = [
        line.split(",")[0] for line in NAMES.read_text().splitlines()[1:] if line and not line.startswith("#")
    ]
    versions: dict[str, dict[str, PackageSources]] = {package: {} for package in PACKAGES}
    for wheel in sorted(Path(sys.argv[1]).glob("*.whl")):
        package, version = wheel.name.split("-")[:2]
        if package in versions:
            versions[package][_minor(version)] = PackageSources(wheel, package)
    for package in PACKAGES:
        place = Path(str(importlib.metadata.distribution(package).locate_file("")))
        version = _minor(importlib.metadata.version(package))
        versions[package].setdefault(version, PackageSources(place, package))
    calls: dict[str, dict[str, str]] = {}
    for name in names:
        eras = dict(_eras(name, versions[name.partition(".")[0]]))
        if eras:
            calls[name] = eras
        else:
            print(f"not found: {name}")
    table = {
        "source": "the packages torch, keras and transformers, read by tools/build_call_signatures.py",
        "as_of": datetime.now(UTC).date().isoformat(),
        "versions": {package: sorted(found, key=_key) for package, found in versions.items()},
        "calls": calls,
    }
    FILE.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{len(calls)} calls, {FILE.stat().st_size} bytes")
    return 0


def _eras(name: str, sources: dict[str, PackageSources]) -> Iterator[tuple[str, str]]:
    """The versions in which the parameters of a call change, and the parameters; `-` where it does not exist."""
    last = ""
    for version in sorted(sources, key=_key):
        text = _signature(name, sources[version])
        if text != last and not (text == "-" and not last):
            yield version, text
            last = text


def _signature(name: str, sources: PackageSources) -> str:
    holder, _, method = name.partition(":")
    found = _find(sources, holder)
    if found is None:
        return "-"
    given = sources.parameters(found, method or "__init__")
    if given is None:
        return "-"
    if isinstance(found.node, ast.ClassDef) and sources.package == "keras" and not method:
        given = _of_keras(sources, found, given)
    return _text(given)


def _of_keras(sources: PackageSources, found: Found, given: Parameters) -> Parameters:
    """The parameters with those that the base classes of Keras take out of `**kwargs`; these raise an error for all others."""
    bases = {found.node.name}
    pending = [found]
    while pending:
        for base in sources.bases(pending.pop()):
            if base.node.name not in bases:
                bases.add(base.node.name)
                pending.append(base)
    more = (
        _KERAS_LAYER
        if "Layer" in bases
        else _KERAS_OPTIMIZER
        if any("Optimizer" in name for name in bases)
        else []
    )
    if "**" not in given.takes_more or not more:
        return given
    known = {**given.positional, **given.keyword_only}
    extra = {name: False for name in ("name", "dtype", "trainable", *more) if name not in known}
    return Parameters(given.positional, {**given.keyword_only, **extra}, given.takes_more - {"**"})


def _find(sources: PackageSources, name: str) -> Found | None:
    if sources.package != "keras":
        if sources.package == "transformers":
            return _find_in_transformers(sources, name.rpartition(".")[2])
        return sources.find(name)
    exported = _exports(sources).get(name, [])
    return exported[0] if exported else None


def _find_in_transformers(sources: PackageSources, name: str) -> Found | None:
    for module in (
        "optimization",
        "data.data_collator",
        "trainer_callback",
        "trainer_utils",
        "utils.quantization_config",
    ):
        found = sources.find(f"transformers.{module}.{name}")
        if found is not None:
            return found
    return None


_INDEX: dict[int, dict[str, list[Found]]] = {}


def _exports(sources: PackageSources) -> dict[str, list[Found]]:
    """The definitions that `keras_export` makes public, by their names; those of current optimizers first."""
    if id(sources) in _INDEX:
        return _INDEX[id(sources)]
    index: dict[str, list[Found]] = {}
    for module in sources.modules():
        if re.search(r"(_test|_v1|legacy|integration|benchmarks)", module):
            continue
        tree = sources.tree(module)
        for node in tree.body if tree is not None else ():
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                continue
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("keras_export"):
                    if (
                        any(
                            keyword.arg == "v1" and ast.unparse(keyword.value) != "[]"
                            for keyword in decorator.keywords
                        )
                        and not decorator.args
                    ):
                        continue
                    for text in ast.walk(decorator):
                        if isinstance(text, ast.Constant) and isinstance(text.value, str):
                            index.setdefault(text.value, []).append(Found(module, node))
    for found in index.values():
        found.sort(
            key=lambda each: (
                "experimental" not in each.module
                and "optimizers" in each.module
                and "optimizer_v2" in each.module,
                each.module,
            )
        )
    _INDEX[id(sources)] = index
    return index


def _text(given: Parameters) -> str:
    """A signature as a text: `!` after required names, `*` before those that are keyword-only, `**` if there may be more."""
    words = [f"{name}!" if required else name for name, required in given.positional.items()]
    if "*" in given.takes_more:
        words.append("*args")
    if given.keyword_only:
        words.append("*")
        words += [f"{name}!" if required else name for name, required in given.keyword_only.items()]
    if "**" in given.takes_more:
        words.append("**")
    return " ".join(words)


def _minor(version: str) -> str:
    return ".".join(version.split("+", maxsplit=1)[0].split(".")[:2])


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    sys.exit(main())
