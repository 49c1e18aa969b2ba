"""Reads the resources of CloudFormation templates in YAML or JSON, with intrinsic functions and line numbers."""

from __future__ import annotations

from typing import Any

import yaml

from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, default, known
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.templates.resource import Resource

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTRINSIC = ("Ref", "Condition")
_MAX_DEPTH = 60
_MERGE = "tag:yaml.org,2002:merge"


def resources(unit: Unit) -> list[Resource]:
    """The resources of a template, in order; empty for a text that is not a template or does not parse.

    `!Ref` of a parameter with a default is that default, `Fn::Base64` the text that it encodes; the values of other
    intrinsic functions are unknown.
    """
    try:
        root = yaml.compose(unit.source.replace("\t", "    "), Loader=_LOADER)
    except (yaml.YAMLError, RecursionError):
        # E901 reports it.
        return []
    if not isinstance(root, yaml.MappingNode):
        return []
    top = dict(_pairs(root))
    parameters = _defaults(top.get("Parameters"))
    reader = _Reader(unit, parameters)
    found: list[Resource] = []
    for name, node in _pairs(top.get("Resources")):
        parts = dict(_pairs(node))
        kind = parts.get("Type")
        if isinstance(kind, yaml.ScalarNode):
            properties = reader.value(parts["Properties"], 0) if "Properties" in parts else known(Entries())
            found.append(
                Resource("cloudformation", str(kind.value), name, properties, reader.span(kind), reader.texts)
            )
    return found


def _pairs(node: yaml.Node | None) -> list[tuple[str, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        return []
    found: list[tuple[str, yaml.Node]] = []
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag == _MERGE:
            # `<<: *anchor`: what the mapping has itself counts.
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            found = [*(pair for part in merged for pair in _pairs(part)), *found]
        elif isinstance(key, yaml.ScalarNode):
            found.append((str(key.value), value))
    return found


def _defaults(node: yaml.Node | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, parameter in _pairs(node):
        value = dict(_pairs(parameter)).get("Default")
        if isinstance(value, yaml.ScalarNode):
            found[name] = str(value.value)
    return found


def document(unit: Unit) -> Value:
    """A whole YAML or JSON text as a value; unknown if it does not parse."""
    try:
        root = yaml.compose(unit.source.replace("\t", "    "), Loader=_LOADER)
    except (yaml.YAMLError, RecursionError):
        return UNKNOWN
    return _Reader(unit, {}).value(root, 0) if root is not None else UNKNOWN


def documents(unit: Unit) -> list[Value]:
    """The documents of a YAML text, those before one that does not parse."""
    found: list[Value] = []
    try:
        for root in yaml.compose_all(unit.source, Loader=_LOADER):
            found += [_Reader(unit, {}).value(root, 0)]
    except (yaml.YAMLError, RecursionError):
        pass
    return found


class _Reader:
    def __init__(self, unit: Unit, parameters: dict[str, str]) -> None:
        self._unit = unit
        self._parameters = parameters
        self.texts: dict[tuple[int, int], str] = {}
        self._values: dict[yaml.Node, Value] = {}

    def value(self, node: yaml.Node, depth: int) -> Value:
        # Aliases of YAML are the same node again, also inside itself.
        if (found := self._values.get(node)) is not None:
            return found
        if depth > _MAX_DEPTH:
            return UNKNOWN
        self._values[node] = UNKNOWN
        self._values[node] = found = self._value(node, depth)
        return found

    def _value(self, node: yaml.Node, depth: int) -> Value:
        span = self.span(node)
        if node.tag.startswith("!"):
            return self._intrinsic(node.tag[1:], node, span, depth)
        if isinstance(node, yaml.ScalarNode):
            return known(_scalar(node), span)
        if isinstance(node, yaml.SequenceNode):
            return known(tuple(self.value(value, depth + 1) for value in node.value), span)
        pairs = _pairs(node)
        if len(pairs) == 1 and (pairs[0][0] in _INTRINSIC or pairs[0][0].startswith("Fn::")):
            return self._intrinsic(pairs[0][0].removeprefix("Fn::"), pairs[0][1], span, depth)
        return known(Entries({key: self.value(pair, depth + 1) for key, pair in pairs}), span)

    def span(self, node: yaml.Node) -> Span:
        start, end = node.start_mark, node.end_mark
        last = end.column if end.line == start.line else start.column + 1
        return Span(
            self._unit, start.line + 1, start.column + 1, start.line + 1, max(last, start.column + 1) + 1
        )

    def _intrinsic(self, function: str, node: yaml.Node, span: Span, depth: int) -> Value:
        if function == "Ref" and isinstance(node, yaml.ScalarNode) and node.value in self._parameters:
            return default(self._parameters[str(node.value)], span)
        if function == "Base64":
            # What is encoded says more than its encoding: the text of a script.
            return self.value(node, depth + 1).with_span(span)
        if function == "Sub" and isinstance(node, yaml.ScalarNode):
            text = str(node.value)
            self.texts[span.line, span.column] = text
            return (
                known(text, span)
                if "${" not in text
                else Value("unknown", (), span, prefix=text.partition("${")[0])
            )
        return Value("unknown", (), span)


def _scalar(node: yaml.ScalarNode) -> Any:
    text = str(node.value)
    match node.tag.rpartition(":")[2]:
        case "int":
            return int(text) if text.lstrip("+-").isdigit() else text
        case "bool":
            return text.lower() in ("yes", "true", "on")
        case "null":
            return None
        case "float":
            try:
                return float(text)
            except ValueError:
                return text
        case _:
            return text
