"""Finds changes of names and parameters between sagemaker v1, v2 and v3 by comparing their interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Seen = dict[str, Any]
"""The output of `build_sdk_tables_walk.py` for one version."""


KIN = {
    "sagemaker.model.Model": "model",
    "sagemaker.base_predictor.Predictor": "predictor",
    "sagemaker.processing.ScriptProcessor": "",
    "sagemaker.processing.FrameworkProcessor": "",
}
"""Base classes whose subclasses are replaced like them: by the SDK's entry for the module, or by the base's new module."""


class Change(NamedTuple):
    """One row of `changes_v2.csv`: something of v1 that v2 removed or deprecated."""

    kind: str
    """`module`, `name`, `method` or `parameter`."""
    path: str
    """The v1 name; for a parameter, that of the callable."""
    word: str
    """The parameter; empty for the other kinds."""
    new: str
    """Its replacement in v2; empty if none is known."""
    state: str
    """`gone` (an error), `deprecated` (works with a warning), `no-op` (a warning without effect)."""


class Replacement(NamedTuple):
    """One row of `changes_v3.csv`: a module or name of v2 and the import that replaces it in v3."""

    path: str
    statement: str
    """Empty: removed without replacement."""
    moved_to: str = ""
    """The v3 module that has all public names of this v2 module."""


def v1_to_v2(v1: Seen, v2: Seen, facts: Seen) -> list[Change]:
    """Everything in v1 that v2 removed or deprecated."""
    found = {
        *_modules_and_names(v1, v2, facts["renamed_names"]),
        *_parameters(v1, v2, facts["renamed_words"]),
        *(Change("method", path, "", _on_predictor(path), "no-op") for path in facts["does_nothing"]),
        *_renamed_by_tool(facts["renamed_words"], v2),
    }
    return sorted(found)


def v2_to_v3(v2: Seen, v3: Seen, curated: dict[str, str]) -> list[Replacement]:
    """Imports of v3 for modules and names of v2.

    `curated` is the SDK's own table, statements by top-level module. A name that v3 keeps in a module of the same
    name below `core`, `train`, `serve` or `mlops` goes there; else it goes where its module goes. A name that goes
    where the nearest row above it says has no row of its own.
    """
    rows: dict[str, Replacement] = {}
    for path in v2["modules"]:
        module = path.removeprefix("sagemaker.")
        if module in curated:
            rows[path] = _module_row(module, curated[module], v2, v3)
        elif module.count(".") == 1 and (row := _module_row(module, "", v2, v3)).moved_to:
            rows[path] = row
    for module, names in v2["modules"].items():
        for name, home in names.items():
            path = f"{module}.{name}"
            if home.endswith(":") or name.isupper() or not _is_public(module, home, v2):
                continue
            place = home.rpartition(":")[0] or module
            statement = _of_kin(f"{place}.{name}", v2, v3, curated) or _statement(place, name, v3, curated)
            if statement != _from_above(path, rows):
                rows[path] = Replacement(path, statement)
    return sorted(rows.values())


def _module_row(module: str, statement: str, v2: Seen, v3: Seen) -> Replacement:
    path = f"sagemaker.{module}"
    for root in ("core", "train", "serve", "mlops"):
        moved = f"sagemaker.{root}.{module}"
        own = [name for name, home in v2["modules"].get(path, {}).items() if not home and not name.isupper()]
        if own and all(name in v3["modules"].get(moved, {}) for name in own) and _may_move(statement):
            folder, _, name = moved.rpartition(".")
            return Replacement(path, f"from {folder} import {name}", moved)
    return Replacement(path, statement)


def _may_move(statement: str) -> bool:
    """Whether the SDK does not name a replacement class for the module."""
    return not statement or statement.rpartition(" ")[2].islower()


def _is_for_jobs(statement: str) -> bool:
    """Estimators, models and their inputs: a class of the same name elsewhere would be unrelated."""
    return statement.startswith(("from sagemaker.train", "from sagemaker.serve"))


def _from_above(path: str, rows: dict[str, Replacement]) -> str:
    """The replacement of a name by the rows of its parent modules."""
    parent, _, name = path.rpartition(".")
    while parent:
        if row := rows.get(parent):
            if not row.moved_to:
                # The replacement of a class does not apply to functions of its module.
                return row.statement if name[0].isupper() else ""
            return f"from {row.moved_to} import {name}" if parent == path.rpartition(".")[0] else ""
        parent = parent.rpartition(".")[0]
    return ""


def _of_kin(path: str, v2: Seen, v3: Seen, curated: dict[str, str]) -> str:
    """The replacement of a class by that of its bases: framework modules contain estimators, models and processors."""
    for base in v2["bases"].get(path, ()):
        if base in KIN:
            module, _, name = base.rpartition(".")
            return curated.get(KIN[base], "") or _statement(module, name, v3, curated)
        if found := _of_kin(base, v2, v3, curated):
            return found
    return ""


def _is_public(module: str, home: str, v2: Seen) -> bool:
    """Names at the top, in the SDK's second storey, and what their packages offer of their own."""
    parts = module.split(".")
    if "jumpstart" in parts or len(parts) > (3 if not home else 2):
        return False
    return not home or module == "sagemaker" or (_is_package(module, v2) and home.startswith(module + "."))


def _modules_and_names(v1: Seen, v2: Seen, renamed: dict[str, str]) -> Iterator[Change]:
    for module, names in v1["modules"].items():
        if module not in v2["modules"]:
            yield Change("module", module, "", "", "gone")
            continue
        now = v2["modules"][module]
        for name in names:
            new = renamed.get(f"{module}.{name}") or renamed.get(name, "")
            if name.isupper() or new == f"{module}.{name}":
                continue
            if name not in now:
                if f"{module}.{name}" not in v2["modules"]:
                    yield Change("name", f"{module}.{name}", "", new, "gone")
            elif "deprecated_class" in now[name]:
                yield Change("name", f"{module}.{name}", "", new, "deprecated")


def _parameters(v1: Seen, v2: Seen, renamed: list[dict[str, str]]) -> Iterator[Change]:
    by_tool = {(row["call"], row["old"]): row["new"] for row in renamed}
    for path, call in v1["calls"].items():
        now = _call(v2, path)
        if now is None or now["unknown"] == "open":
            continue
        accepted = {each[0] for each in now["parameters"]}
        for name, *_ in call["parameters"]:
            if name in accepted:
                continue
            if name in now["renamed"]:
                # The signature already has it.
                continue
            new = by_tool.get((path.rpartition(".")[2], name), "")
            state = "no-op" if now["unknown"] == "ignored" or name in now["dropped"] else "gone"
            yield Change("parameter", path, name, new if new in accepted else "", state)


def _renamed_by_tool(renamed: list[dict[str, str]], v2: Seen) -> Iterator[Change]:
    """Words that v1 took through `**kwargs` (an estimator's `image_name`): only the upgrade tool of the SDK lists them."""
    for row in renamed:
        for path, call in v2["calls"].items():
            if path.rpartition(".")[2] != row["call"] or not row["call"][0].isupper():
                continue
            accepted = {each[0] for each in call["parameters"]}
            if row["new"] in accepted and row["old"] not in {*accepted, *call["renamed"]}:
                state = "no-op" if call["unknown"] == "ignored" else "gone"
                yield Change("parameter", path, row["old"], row["new"], state)


def _call(seen: Seen, path: str) -> Seen | None:
    """The call at a path, also in the bases of its class."""
    if path in seen["calls"]:
        return seen["calls"][path]
    module, _, name = path.rpartition(".")
    home = seen["modules"].get(module, {}).get(name, "")
    if home and ":" in home and (moved := home.replace(":", ".")) != path:
        return _call(seen, moved)
    for base in seen["bases"].get(module, ()):
        if found := _call(seen, f"{base}.{name}"):
            return found
    return None


def _on_predictor(path: str) -> str:
    return "sagemaker.predictor.Predictor." + path.rpartition(".")[2]


def _is_package(module: str, seen: Seen) -> bool:
    return any(each.startswith(module + ".") for each in seen["modules"])


def _statement(place: str, name: str, v3: Seen, curated: dict[str, str]) -> str:
    """The import of the v3 replacement of a v2 name; empty if v3 has none."""
    parts = place.split(".")[1:]
    if not parts:
        return ""
    own = curated.get(parts[0], "")
    if _is_for_jobs(own) and (parts[0] != "inputs" or name == "TrainingInput"):
        return own
    for tail in (parts, parts[:-1], parts[:1]):
        for root in ("core", "train", "serve", "mlops"):
            module = ".".join(["sagemaker", root, *tail])
            if tail and name in v3["modules"].get(module, {}):
                return f"from {module} import {name}"
    helper = "sagemaker.core.helper.session_helper"
    if parts[0] == "session" and name in v3["modules"][helper]:
        return f"from {helper} import {name}"
    return own if name[0].isupper() else ""
