"""Reads YAML with the line of every value, and reports values that YAML 1.1 reads in an unexpected way.

Built on PyYAML and not on ruamel.yaml, which was tried. ruamel.yaml keeps lines and implements YAML 1.2, but in YAML 1.2
`spot: yes` is text and `0755` is 755: files that are valid would become invalid, and the explanations of octal and
base 60 numbers would have to be found another way. The checks for size, depth, aliases and duplicate keys would remain.
Parsing is also 20 times slower without libyaml (4.2 ms and 0.2 ms for a file of 41 lines); importing takes as long.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpuproof.errors import Problem
from gpuproof.jobs.validation_errors import KeyPath

MAX_BYTES = 1_000_000
MAX_VALUES = 20_000
"""A job description has some dozens of values; more than this come from aliases that multiply."""
MAX_DEPTH = 50

_ADVICE = {
    "mapping values are not allowed": "; put text that contains a colon in quotes",
    "undefined alias": "; put text that begins with * in quotes",
    "cannot start any token": "; put text that begins with this character in quotes",
}
"""Advice for the most common messages of libyaml and PyYAML."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_YAML_1_2_FLOAT = re.compile(r"[-+]?(\d+|\d+\.\d*|\.\d+)[eE][-+]?\d+")
"""`1e-3` is a number in YAML 1.2 and JSON, but text in YAML 1.1."""


@dataclass(frozen=True)
class Mark:
    """Position of a value, and its text.

    Args:
        line: counted from 1.
        plain_text: the text of an unquoted scalar before YAML turns it into a number or a boolean; else None.
        ambiguity: how YAML 1.1 reads the text if that is rarely intended, as a sentence; else None.
    """

    line: int
    plain_text: str | None = None
    ambiguity: str | None = None


@dataclass
class Document:
    """A parsed YAML document.

    Args:
        data: mappings with text keys, lists and scalars.
        marks: for each path, the position of its key or list item.
        problems: syntax errors and values that cannot be used.
    """

    data: Any = None
    marks: dict[KeyPath, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read(raw: bytes) -> Document:
    """Reads one YAML document; invalid text raises nothing, but is listed in `problems`.

    Args:
        raw: the file's bytes.
    """
    document = Document()
    if len(raw) > MAX_BYTES:
        document.problems.append(
            Problem("the file is larger than 1 MB, too large for a job description: is it data?", line=1)
        )
        return document
    text = _decode(raw, document)
    if text is None:
        return document
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        document.problems.append(_syntax_problem(error, text))
        return document
    except (yaml.YAMLError, RecursionError) as error:
        reason = (
            "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        )
        document.problems.append(Problem(f"this is not YAML: {reason}", line=_control_character_line(text)))
        return document
    if root is not None:
        _Builder(document).build(root)
    return document


def has_path(data: Any, path: KeyPath) -> bool:
    """Whether the data has a value at the path."""
    for key in path:
        if key not in _keys(data):
            return False
        data = data[key]
    return True


def _keys(value: Any) -> Container[Any]:
    if isinstance(value, list):
        return range(len(value))
    return value if isinstance(value, dict) else ()


class _TooBig(Exception):
    pass


class _Builder:
    """Converts YAML nodes into plain data, with a mark for each path."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values = 0
        self._depth = 0

    def build(self, root: yaml.Node) -> None:
        try:
            self._document.data = self._value(root, (), root)
        except _TooBig as error:
            self._document.data = None
            self._document.problems.append(Problem(str(error), line=root.start_mark.line + 1))
        marks = self._document.marks.items()
        self._document.marks = {path: mark for path, mark in marks if has_path(self._document.data, path)}

    def _value(self, node: yaml.Node, path: KeyPath, where: yaml.Node) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _TooBig(f"the file has more than {MAX_VALUES:,} values: do its aliases (*name) multiply?")
        if self._depth > MAX_DEPTH:
            raise _TooBig("the file is nested too deeply: does an alias (*name) contain itself?")
        self._document.marks[path] = Mark(where.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path, where)
        self._depth += 1
        value = (
            self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)
        )
        self._depth -= 1
        return value

    def _sequence(self, node: yaml.Node, path: KeyPath) -> list[Any]:
        return [self._value(item, (*path, index), item) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        merged: dict[str, Any] = {}
        merges = [pair for pair in node.value if pair[0].tag == f"{_TAG}merge"]
        for _, value_node in merges:
            merged.update(self._merged(value_node, path))
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if (key_node, value_node) in merges:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._document.problems.append(
                    Problem("a key must be text, not a list or a mapping", line=line)
                )
                continue
            key = str(key_node.value)
            if key in first:
                text = f"duplicate key '{key}', first defined on line {first[key]}"
                self._document.problems.append(Problem(text, line=line))
                continue
            first[key] = line
            result[key] = self._value(value_node, (*path, key), key_node)
        return {**merged, **result}

    def _merged(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        """The mappings that `<<` merges; if several have a key, the first wins, as in YAML's specification."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, yaml.MappingNode):
                own = self._document.marks[path]
                result = {**self._value(part, path, part), **result}
                self._document.marks[path] = own
            else:
                self._document.problems.append(
                    Problem("<< takes a mapping, as in <<: *name", line=part.start_mark.line + 1)
                )
        return result

    def _scalar(self, node: yaml.Node, path: KeyPath, where: yaml.Node) -> Any:
        text = str(node.value)
        kind = node.tag.removeprefix(_TAG)
        plain = not getattr(node, "style", None)
        value, ambiguity = _scalar_value(kind, text, plain)
        if kind not in _KINDS:
            line = node.start_mark.line + 1
            self._document.problems.append(
                Problem(f"GPUproof does not support the YAML tag {node.tag}: remove it", line=line)
            )
        self._document.marks[path] = Mark(where.start_mark.line + 1, text if plain else None, ambiguity)
        return value


_KINDS = ("str", "int", "float", "bool", "null", "timestamp", "value")
_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}


def _scalar_value(kind: str, text: str, plain: bool) -> tuple[Any, str | None]:
    if kind == "null":
        return None, None
    if kind == "bool" and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()], None
    if kind == "int":
        return _integer(text)
    if kind == "float":
        if ":" in text:
            return text, _sexagesimal(text)
        return _float(text), None
    if plain and _YAML_1_2_FLOAT.fullmatch(text):
        return float(text), None
    return text, None


def _integer(text: str) -> tuple[Any, str | None]:
    digits = text.replace("_", "")
    if ":" in digits:
        return text, _sexagesimal(text)
    try:
        if re.fullmatch(r"[-+]?0[0-7]+", digits):
            octal = int(digits, 8)
            return (
                octal,
                f"YAML reads {text} as the octal number {octal}: write {int(digits)}, or '{text}' in quotes",
            )
        return int(digits, 0), None
    except ValueError:
        return text, None


def _sexagesimal(text: str) -> str:
    return f"YAML reads {text} as a number of base 60: put it in quotes, or write a time as 1h30m"


def _float(text: str) -> Any:
    digits = text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan")
    try:
        return float(digits)
    except ValueError:
        return text


def _decode(raw: bytes, document: Document) -> str | None:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        document.problems.append(Problem("the file is UTF-16: save it as UTF-8", line=1))
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        text = f"the byte 0x{raw[error.start]:02x} is not UTF-8: save the file as UTF-8"
        document.problems.append(Problem(text, line=line))
        return None


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    here = lines[line - 1] if line <= len(lines) else ""
    if re.match(r" *\t", here):
        return Problem("this line is indented with a tab: YAML requires spaces", line=line)
    if "single document" in str(error.context or ""):
        return Problem(
            "a second YAML document begins here (---): put several jobs under 'jobs:' in one document",
            line=line,
        )
    if "quoted scalar" in str(error.context) and error.context_mark and "end of stream" in str(error.problem):
        return Problem("the quote opened here is never closed", line=error.context_mark.line + 1)
    reason = " ".join(part for part in (error.context, error.problem) if part)
    advice = next((advice for words, advice in _ADVICE.items() if words in reason), "")
    return Problem(f"this is not YAML: {reason}{advice}", line=line)


def _control_character_line(text: str) -> int:
    bad = re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    return text.count("\n", 0, bad.start()) + 1 if bad else 1
