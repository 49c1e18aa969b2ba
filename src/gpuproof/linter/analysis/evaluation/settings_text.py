"""Reads the text of a settings file (YAML, JSON, TOML, INI) into a value with the position of each entry."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, default, known
from gpuproof.linter.source.span import Span, Unit

Format = Literal["yaml", "omegaconf", "json", "toml", "ini"]
"""`omegaconf` is YAML in which `3e-4` is a number, not a text, and `???` a missing value."""
FORMATS: dict[str, Format] = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".toml": "toml",
    ".ini": "ini",
    ".cfg": "ini",
    ".conf": "ini",
}
"""The formats of settings files, by the suffix of their names."""
_FLOAT = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
MAX_CHARACTERS = 200_000
"""A longer file is data."""
_MAX_DEPTH = 40


def read_settings_text(unit: Unit, kind: Format) -> Value:
    """The value of a whole settings file; unknown if it does not parse or is too long."""
    if len(unit.source) > MAX_CHARACTERS:
        return UNKNOWN
    match kind:
        case "toml":
            return _toml(unit)
        case "ini":
            return _ini(unit.source)
        case _:
            return _yaml(unit, kind)


def as_default(value: Value, depth: int = 0) -> Value:
    """A value whose entries may all be overridden: by a command line, or because another file may be read."""
    if value.entries is not None and depth < _MAX_DEPTH:
        entries = Entries({key: as_default(part, depth + 1) for key, part in value.entries.items()})
        entries.complete = False
        return default(entries, value.span)
    if value.items is not None and depth < _MAX_DEPTH:
        return default(tuple(as_default(item, depth + 1) for item in value.items), value.span)
    return value.as_default()


def overlay(base: Value, *others: Value) -> Value:
    """Mappings merged from left to right, with the mappings inside them, as OmegaConf merges them."""
    merged = Entries(base.entries or {})
    merged.complete = base.entries is not None and base.entries.complete
    for other in others:
        if other.entries is None:
            merged = Entries({key: part.as_default() for key, part in merged.items()})
            merged.complete = False
            continue
        merged.complete = merged.complete and other.entries.complete
        for key, part in other.entries.items():
            before = merged.get(key)
            both = before is not None and before.entries is not None and part.entries is not None
            merged[key] = overlay(before, part) if both and before is not None else part
    return known(merged, base.span)


def of_plain(data: Any, depth: int = 0, unit: Unit | None = None) -> Value:
    """Plain Python data as a value, without positions."""
    if depth > _MAX_DEPTH:
        return UNKNOWN
    if isinstance(data, dict):
        return known(_mapping({key: of_plain(part, depth + 1, unit) for key, part in data.items()}, unit))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(data, list):
        return known(tuple(of_plain(part, depth + 1, unit) for part in data))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return known(data) if isinstance(data, (str, int, float, bool)) or data is None else UNKNOWN


def _mapping(parts: dict[Any, Value], unit: Unit | None) -> Entries:
    entries = Entries(parts)
    entries.file = unit
    return entries


def _toml(unit: Unit) -> Value:
    import tomllib  # only where a script loads such a file

    try:
        return of_plain(tomllib.loads(unit.source), unit=unit)
    except (tomllib.TOMLDecodeError, RecursionError):
        return UNKNOWN


def _ini(source: str) -> Value:
    import configparser  # only where a script loads such a file

    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(source)
    except configparser.Error:
        return UNKNOWN
    return of_plain({name: dict(parser[name]) for name in parser.sections()})


def _yaml(unit: Unit, kind: Format) -> Value:
    import yaml  # 20 ms, only where a script loads such a file

    try:
        root = yaml.compose(
            unit.source.replace("\t", " "), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        return _YamlReader(unit, kind).value(root, 0) if root is not None else UNKNOWN
    except (yaml.YAMLError, RecursionError, ValueError):
        return UNKNOWN


class _YamlReader:
    """Converts the nodes of a YAML or JSON text; a node that aliases refer to is converted once."""

    def __init__(self, unit: Unit, kind: Format) -> None:
        from yaml.constructor import SafeConstructor

        self._unit = unit
        self._kind = kind
        self._constructor: Any = SafeConstructor()
        self._values: dict[Any, Value] = {}

    def value(self, node: Any, depth: int) -> Value:
        if (found := self._values.get(node)) is not None:
            return found
        if depth > _MAX_DEPTH:
            return UNKNOWN
        self._values[node] = UNKNOWN
        self._values[node] = found = self._read(node, depth)
        return found

    def _read(self, node: Any, depth: int) -> Value:
        start = node.start_mark
        line, column = start.line + 1, start.column + 1
        span = Span(
            self._unit, line, column, line, max(column + 1, node.end_mark.column + 1)
        ) if node.end_mark.line == start.line else Span(self._unit, line, column, line, column + 1)  # fmt: skip
        if not node.tag.startswith("tag:yaml.org,2002:"):
            return Value("unknown", (), span)
        if node.id == "mapping":
            self._constructor.flatten_mapping(node)
            pairs = [(self._scalar(key), part) for key, part in node.value if key.id == "scalar"]
            return known(
                _mapping({key: self.value(part, depth + 1) for key, part in pairs}, self._unit), span
            )
        if node.id == "sequence":
            return known(tuple(self.value(part, depth + 1) for part in node.value), span)
        scalar = self._scalar(node)
        if scalar == "???" and self._kind == "omegaconf":
            return Value("unknown", (), span)
        if isinstance(scalar, str) and "${" in scalar:
            return Value("unknown", (), span, prefix=scalar.partition("${")[0])
        is_plain = isinstance(scalar, (str, int, float, bool)) or scalar is None
        return known(scalar, span) if is_plain else Value("unknown", (), span)

    def _scalar(self, node: Any) -> Any:
        if self._kind == "json" and not node.style:
            return json.loads(node.value)
        if self._kind == "omegaconf" and not node.style and _FLOAT.match(node.value):
            return float(node.value)
        return self._constructor.construct_object(node)
