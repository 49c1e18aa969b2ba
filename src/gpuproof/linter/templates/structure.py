"""Finds what is wrong with the structure of a template that parses: resources without a type, keys that are repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuproof.linter.source.span import Unit

_MAX_DEPTH = 60


class StructureProblem(NamedTuple):
    """One problem.

    Attributes:
        is_rejected: whether the service rejects the whole template.
    """

    line: int
    column: int
    message: str
    remedy: str
    is_rejected: bool


def structure_problems(unit: Unit) -> list[StructureProblem]:
    """The problems of a template or request; empty for one that does not parse, which E901 reports."""
    import yaml  # 20 ms, only for templates

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        roots = list(yaml.compose_all(unit.source.replace("\t", "    "), Loader=loader))
    except (yaml.YAMLError, RecursionError):
        return []
    found: list[StructureProblem] = []
    for root in roots:
        found += _repeated(root, set(), 0)
        if unit.kind == "cloudformation":
            found += _resources(root)
    return found


def _repeated(node: Any, seen: set[int], depth: int) -> Iterator[StructureProblem]:
    """Keys that a mapping has twice."""
    if node is None or depth > _MAX_DEPTH or id(node) in seen or node.id == "scalar":
        return
    seen.add(id(node))
    if node.id == "sequence":
        for item in node.value:
            yield from _repeated(item, seen, depth + 1)
        return
    keys: dict[str, int] = {}
    for key, value in node.value:
        name = str(key.value) if key.id == "scalar" else ""
        if name in keys and name != "<<":
            mark = key.start_mark
            yield StructureProblem(
                mark.line + 1,
                mark.column + 1,
                f"`{name}` is written twice in the same mapping (first in line {keys[name]}): only one of the values counts.",
                "Remove one of them.",
                is_rejected=False,
            )
        elif name:
            keys[name] = key.start_mark.line + 1
        yield from _repeated(value, seen, depth + 1)


def _resources(root: Any) -> Iterator[StructureProblem]:
    """What CloudFormation rejects about `Resources`; nothing where macros may make it."""
    top = _pairs(root)
    if "Transform" in top or "Resources" not in top:
        return
    # Other tools have files with this word, too, and with types of CloudFormation in it.
    if "AWSTemplateFormatVersion" not in top and not any(
        "Type" in _pairs(resource) for _, resource in _pairs(top["Resources"][1]).values()
    ):
        return
    key, resources = top["Resources"]
    if resources.id != "mapping":
        yield _rejected(
            key, "`Resources` is no mapping of names to resources", "Write a name for each resource."
        )
        return
    for name, (written, resource) in _pairs(resources).items():
        if name.startswith("Fn::"):
            continue
        if resource.id != "mapping":
            yield _rejected(written, f"The resource `{name}` has no type", "Give it a Type.")
            continue
        parts = _pairs(resource)
        if "Fn::Transform" in parts:
            continue
        if "Type" not in parts:
            yield _rejected(written, f"The resource `{name}` has no `Type`", "Add Type: AWS::...")
        properties = parts.get("Properties")
        if properties is not None and properties[1].id != "mapping" and not properties[1].tag.startswith("!"):
            yield _rejected(
                properties[0],
                f"`Properties` of `{name}` is no mapping",
                "Write its properties as Name: value.",
            )


def _rejected(key: Any, message: str, remedy: str) -> StructureProblem:
    mark = key.start_mark
    return StructureProblem(
        mark.line + 1,
        mark.column + 1,
        f"{message}: CloudFormation rejects the template.",
        remedy,
        is_rejected=True,
    )


def _pairs(node: Any) -> dict[str, tuple[Any, Any]]:
    if node is None or node.id != "mapping":
        return {}
    return {str(key.value): (key, value) for key, value in node.value if key.id == "scalar"}
