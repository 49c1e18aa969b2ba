"""Tables of the names and signatures in one version of the SageMaker SDK."""

from __future__ import annotations

import json
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from gpuproof.linter.sdk.signature import Signature, read_signature

FOLDER = Path(__file__).parents[1] / "data"


@cache
def v2() -> Sdk:
    """The SDK's second major version: estimators, models, predictors."""
    return Sdk("v2")


@cache
def v3() -> Sdk:
    """The SDK's third major version: `ModelTrainer`, `ModelBuilder` and pydantic models that forbid extras."""
    return Sdk("v3")


class Sdk:
    """The names and signatures of one version of the package `sagemaker`; the table is loaded on first use.

    Args:
        table: the table's name, `v2` or `v3`.
    """

    def __init__(self, table: str) -> None:
        self._path = FOLDER / f"{table}.json"

    @property
    def version(self) -> str:
        """The version that the table was read from."""
        return self._table["version"]

    @property
    def source(self) -> str:
        """The source of the table, with the date."""
        return f"{self._table['source']}, {self._table['as_of']}"

    @property
    def modules(self) -> frozenset[str]:
        """Every public module that could be imported."""
        return self._modules

    def names(self, module: str) -> frozenset[str] | None:
        """Public names of a module, without constants in capitals; None if it does not exist or was not read."""
        listed = self._names(module)
        return frozenset(listed) if listed is not None else None

    def has(self, path: str) -> bool | None:
        """Whether a module or a name in a module exists; None if unknown.

        Attributes of classes are not checked: `sagemaker.estimator.Estimator.foo` exists because its class does.
        """
        module = self._module_of(path)
        if module == path:
            return True
        first = path[len(module) + 1 :].partition(".")[0] if module else path
        if self._is_unread(f"{module}.{first}") or first.startswith("_") or first.isupper():
            return None
        names = self._names(module)
        return None if names is None else first in names

    def definition(self, path: str) -> str:
        """The qualified name at the definition: `sagemaker.pytorch.estimator.PyTorch` of `sagemaker.pytorch.PyTorch`."""
        if path not in self._definitions:
            self._definitions[path] = self._find_definition(path)
        return self._definitions[path]

    def signature(self, path: str) -> Signature | None:
        """The signature of a callable, through re-exports and base classes; None if it is not in the table."""
        return self._signature(self.definition(path), frozenset())

    def is_subclass(self, path: str, *bases: str) -> bool:
        """Whether a class is one of these (by their home) or inherits from one."""
        home = self.definition(path)
        return home in bases or any(self.is_subclass(base, *bases) for base in self._bases(home))

    @cached_property
    def _table(self) -> dict[str, Any]:
        return json.loads(self._path.read_bytes())

    @cached_property
    def _modules(self) -> frozenset[str]:
        return frozenset(self._table["modules"])

    @cached_property
    def _order(self) -> list[str]:
        return list(self._table["modules"])

    @cached_property
    def _definitions(self) -> dict[str, str]:
        return {}

    def _find_definition(self, path: str) -> str:
        module = self._module_of(path)
        first, dot, rest = path[len(module) + 1 :].partition(".") if module != path else ("", "", "")
        home = (self._names(module) or {}).get(first)
        return self.definition(f"{home}{dot}{rest}") if home and home != f"{module}.{first}" else path

    @cached_property
    def _signatures(self) -> dict[str, Signature | None]:
        return {}

    def _signature(self, home: str, seen: frozenset[str]) -> Signature | None:
        if home in self._signatures:
            return self._signatures[home]
        module = self._module_of(home)
        text = self._table["calls"].get(module, {}).get(home[len(module) + 1 :])
        found = read_signature(home, text, self._table["runs"]) if text else None
        owner, _, name = home.rpartition(".")
        if found is None and owner not in seen:
            # An inherited method.
            inherited = (self._signature(f"{base}.{name}", seen | {owner}) for base in self._bases(owner))
            found = next(filter(None, inherited), None)
        self._signatures[home] = found
        return found

    def _bases(self, home: str) -> list[str]:
        return self._table["bases"].get(home, "").split()

    def _module_of(self, path: str) -> str:
        """The longest prefix that is a module."""
        while path and path not in self._modules:
            path = path.rpartition(".")[0]
        return path

    def _is_unread(self, path: str) -> bool:
        return any(path == each or path.startswith(each + ".") for each in self._table["unread"])

    def _names(self, module: str) -> dict[str, str] | None:
        """Names of a module with the qualified name at their definition; empty if defined in the module itself."""
        if module not in self._named:
            text = self._table["modules"].get(module)
            self._named[module] = None if text is None else self._read_names(module, text)
        return self._named[module]

    @cached_property
    def _named(self) -> dict[str, dict[str, str] | None]:
        return {}

    def _read_names(self, module: str, text: str) -> dict[str, str]:
        names: dict[str, str] = {
            other[len(module) + 1 :]: "" for other in self._order if other.rpartition(".")[0] == module
        }
        for word in text.split():
            if word.startswith("*"):
                repeated = self._order[int(word[1:])]
                own = self._names(repeated) or {}
                names |= {name: f"{repeated}.{name}" for name, home in own.items() if not home}
            elif word.startswith("-"):
                names.pop(word[1:], None)
            else:
                name, _, place = word.rstrip("/~").partition("@")
                names[name] = f"{self._order[int(place)]}.{name}" if place else ""
        return names
