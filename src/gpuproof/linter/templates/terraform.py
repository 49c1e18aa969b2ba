"""Reads the resource blocks of Terraform files with a small HCL parser; values of other expressions are unknown.

It parses blocks, attributes, strings, numbers, booleans, lists, objects, heredocs, attributes of the data blocks of `DATA`,
whose value is the arguments of the block with its `type`, and `local.name` and `var.name`, which any file of the folder
declares: a variable has its default, or the value of a `.tfvars` file that Terraform reads without being told.
Grammar: https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md, 2026-11-21.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.span import Span, Unit
from gpuproof.linter.templates.resource import Resource

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
    | (?P<newline>\n)
    | (?P<heredoc><<-?\s*(?P<mark>[A-Za-z_]\w*)[ \t]*\n)
    | (?P<text>"(?:\\.|\$\{(?:[^{}"]|"(?:\\.|[^"\\])*"|\{[^{}]*\})*\}|[^"\\\n])*")
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_][\w-]*)
    | (?P<mark_>[{}\[\]()=,:.])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_FILE = re.compile(
    r'(?:base64encode\(\s*)?(?:file|templatefile|filebase64)\(\s*"(?:\$\{path\.\w+\}/)?(?P<path>[^"$]+)"'
)
"""An expression whose value is the content of a file next to the template."""
_REFERENCE = re.compile(r"\$\{\s*((?:var|local)\.[A-Za-z_][\w-]*)\s*\}")
"""A text that is one reference and nothing else."""
_USES = re.compile(r"\b(var|local)\.")
_MAX_DEPTH = 40
_MAX_FILES = 60
"""Files of a folder that may declare variables."""
DATA = ("aws_ami", "aws_ssm_parameter")
"""Types of data blocks whose arguments say which AMI they select."""


@dataclass(frozen=True)
class Token:
    """One token: its kind is the name of a group of `_TOKEN`."""

    kind: str
    text: str
    start: int
    end: int


def resources(unit: Unit) -> list[Resource]:
    """The resource blocks of a file, in order; blocks that cannot be parsed are left out."""
    parser = _Parser(unit)
    body = parser.body()
    references = _references(unit, body)
    for block in body.blocks:
        if block.type == "data" and len(block.labels) == 2 and block.labels[0] in DATA:
            inner = Entries((block.body.entries or {}) | {"type": known(block.labels[0], block.span)})
            references["data." + ".".join(block.labels)] = _resolved(known(inner, block.span), references)
    return [
        Resource(
            "terraform",
            block.labels[0],
            block.labels[1],
            _resolved(block.body, references),
            block.span,
            parser.texts,
            parser.files,
        )
        for block in body.blocks
        if block.type == "resource" and len(block.labels) == 2
    ]


def _references(unit: Unit, body: _Body) -> dict[str, Value]:
    """The values of the variables and locals that the files of a folder declare; this file's own come last."""
    found: dict[str, Value] = {}
    if _USES.search(unit.source):
        own = unit.absolute
        files = sorted(path for path in own.parent.glob("*.tf*") if path != own)[:_MAX_FILES]
        for path in files:
            if path.suffix == ".tf":
                found |= _declared_in(_text(path))
        found |= _declared(body)
        given = [path for path in files if path.suffix == ".tfvars"]
        # Which of several other files of values is used is known only to who runs Terraform.
        for path in sorted(given, key=_is_automatic):
            for name, value in _given_in(_text(path)).items():
                found[f"var.{name}"] = value if _is_automatic(path) else Value("unknown", (), value.span)
    return found


def _is_automatic(path: Path) -> bool:
    return path.name == "terraform.tfvars" or path.name.endswith(".auto.tfvars")


def _text(path: Path) -> str:
    try:
        return decode(read_bytes(path))[0]
    except Unreadable:
        return ""


@lru_cache(maxsize=_MAX_FILES)
def _declared_in(source: str) -> dict[str, Value]:
    return _declared(_Parser(Unit("", source, "terraform")).body())


@lru_cache(maxsize=_MAX_FILES)
def _given_in(source: str) -> dict[str, Value]:
    entries = _Parser(Unit("", source, "terraform")).body().attributes
    return {name: value.as_default() for name, value in entries.items()}


def _declared(body: _Body) -> dict[str, Value]:
    """The defaults of a file's variables, and its locals."""
    found: dict[str, Value] = {}
    for block in body.blocks:
        if block.type == "variable" and block.labels and not block.body.at("default").is_absent:
            found[f"var.{block.labels[0]}"] = block.body.at("default").as_default()
        elif block.type == "locals":
            found |= {f"local.{name}": value for name, value in block.body.parts.items()}
    return found


def provider_regions(source: str) -> list[str | None]:
    """The region of each `provider "aws"` of a file; None for one that is not written as a text."""
    body = _Parser(Unit("", source, "terraform")).body()
    return [
        block.body.at("region").text if block.body.at("region").is_known else None
        for block in body.blocks
        if block.type == "provider" and block.labels[:1] == ("aws",)
    ]


@dataclass(frozen=True)
class _Block:
    type: str
    labels: tuple[str, ...]
    body: Value
    span: Span


@dataclass(frozen=True)
class _Reference:
    """`var.name`, `local.name` or `data.type.name`, resolved after the whole file is parsed."""

    name: str


@dataclass(frozen=True)
class _Body:
    attributes: Entries
    blocks: list[_Block]


def _resolved(
    value: Value, references: dict[str, Value], span: Span | None = None, through: tuple[str, ...] = ()
) -> Value:
    """A value with that of each reference in it.

    Args:
        span: where all of it is written; its own positions if None.
        through: the references that led to it.
    """
    inner, span = value.value, span or value.span
    if isinstance(inner, _Reference):
        found = references.get(inner.name, ABSENT)
        if found.options and inner.name not in through:
            return _resolved(found, references, span, (*through, inner.name)).with_span(span)
        return Value("unknown", (), span)
    # What another file declares is where this file uses it.
    outer = span if value.span is not None and not value.span.unit.path else None
    if isinstance(inner, Entries):
        entries = Entries({key: _resolved(entry, references, outer, through) for key, entry in inner.items()})
        entries.complete = inner.complete
        return Value(value.certainty, (entries,), span)
    if isinstance(inner, tuple):
        items = tuple(_resolved(item, references, outer, through) for item in inner)
        return Value(value.certainty, (items,), span)
    return value.with_span(outer)


class _Parser:
    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._source = unit.source
        self._starts = [0, *(match.end() for match in re.finditer("\n", self._source))]
        self._tokens = read_tokens(self._source)
        self._at = 0
        self.texts: dict[tuple[int, int], str] = {}
        self.files: dict[tuple[int, int], str] = {}

    def body(self, depth: int = 0) -> _Body:
        """Attributes and blocks up to the closing brace, or the end of the file."""
        attributes, blocks = Entries(), list[_Block]()
        while (token := self._peek()) is not None and token.text != "}":
            if token.kind not in ("name", "text") or depth > _MAX_DEPTH:
                self._at += 1
                continue
            self._statement(attributes, blocks, depth)
        # A nested block may be repeated: each name has the list of its blocks.
        for block in blocks:
            if depth and block.type != "dynamic":
                before = attributes[block.type].items if block.type in attributes else ()
                attributes[block.type] = known((*(before or ()), block.body), block.span)
            elif depth and block.labels:
                attributes[block.labels[0]] = Value("unknown", (), block.span)
        return _Body(attributes, blocks)

    def _statement(self, attributes: Entries, blocks: list[_Block], depth: int) -> None:
        first = self._tokens[self._at]
        self._at += 1
        following = self._peek(newlines=True)
        if following is not None and following.text == "=":
            self._at += 1
            attributes[_plain(first)] = self._expression(depth)
            return
        labels: list[str] = []
        while (token := self._peek(newlines=True)) is not None and token.kind in ("text", "name"):
            labels.append(_plain(token))
            self._at += 1
        if token is not None and token.text == "{":
            self._at += 1
            inner = self.body(depth + 1)
            self._at += 1
            end = self._tokens[min(self._at, len(self._tokens)) - 1].end if self._at else first.end
            last = labels and self._source.rfind("{", first.start, end)
            span = self._span(first.start, last if isinstance(last, int) and last > 0 else first.end)
            blocks.append(
                _Block(first.text, tuple(labels), known(inner.attributes, self._span(first.start)), span)
            )

    def _expression(self, depth: int) -> Value:
        """One attribute's value, up to the end of its line outside brackets."""
        token = self._peek(newlines=True)
        if token is None:
            return ABSENT
        start = self._at
        if read := _FILE.match(self._source, token.start):
            span = self._span(token.start)
            self.files[span.line, span.column] = read["path"]
        value = self._simple(depth)
        ending = self._peek(newlines=True)
        if value is not None and (
            ending is None or ending.kind == "newline" or ending.text in ("}", "]", ",", ")")
        ):
            return value
        self._at = start
        self._skip()
        return Value("unknown", (), self._span(token.start))

    def _simple(self, depth: int) -> Value | None:
        token = self._tokens[self._at]
        span = self._span(token.start, token.end)
        self._at += 1
        if token.kind == "text":
            text = _plain(token)
            if alone := _REFERENCE.fullmatch(text):
                return known(_Reference(alone[1]), span)
            if "${" in text or "%{" in text:
                return Value("unknown", (), span, prefix=text.partition("${")[0])
            return known(text, span)
        if token.kind == "heredoc":
            if "${" not in token.text:
                return known(token.text, span)
            self.texts[span.line, span.column] = token.text
            return Value("unknown", (), span)
        if token.kind == "number":
            return known(float(token.text) if re.search(r"[.eE]", token.text) else int(token.text), span)
        if token.kind == "name" and token.text in ("true", "false", "null"):
            return known({"true": True, "false": False, "null": None}[token.text], span)
        if token.kind == "name" and token.text in ("var", "local", "data"):
            return self._reference(token, span)
        if token.kind == "name" and token.text in ("jsonencode", "base64encode"):
            return self._encoded(depth)
        if token.text == "[" and depth < _MAX_DEPTH:
            return self._list(span, depth)
        if token.text == "{" and depth < _MAX_DEPTH:
            return self._object(span, depth)
        return None

    def _reference(self, first: Token, span: Span) -> Value | None:
        """`var.NAME`, `local.NAME` or `data.TYPE.NAME.ATTRIBUTE`."""
        count = 6 if first.text == "data" else 2
        tokens = self._tokens[self._at : self._at + count]
        dots, names = tokens[::2], tokens[1::2]
        if len(tokens) < count or any(token.text != "." for token in dots):
            return None
        if any(token.kind != "name" for token in names):
            return None
        self._at += count
        path = [token.text for token in names[:2]]
        return known(_Reference(".".join((first.text, *path))), span)

    def _encoded(self, depth: int) -> Value | None:
        """The object in `jsonencode({...})`, which rules on policies check, or the text in `base64encode(...)`."""
        token = self._peek(newlines=True)
        if token is None or token.text != "(":
            return None
        self._at += 1
        self._peek()
        if self._at >= len(self._tokens):
            return None
        value = self._simple(depth + 1)
        token = self._peek()
        if token is None or token.text != ")":
            return None
        self._at += 1
        return value

    def _list(self, span: Span, depth: int) -> Value | None:
        items: list[Value] = []
        while (token := self._peek()) is not None and token.text != "]":
            if token.text == "for":
                return None
            before = self._at
            items.append(self._item(depth + 1))
            if (after := self._peek()) is not None and after.text == ",":
                self._at += 1
            if self._at == before:
                return None
        self._at += 1
        return known(tuple(items), span)

    def _object(self, span: Span, depth: int) -> Value | None:
        entries = Entries()
        while (token := self._peek()) is not None and token.text != "}":
            if token.kind not in ("name", "text") or token.text == "for":
                return None
            self._at += 1
            following = self._peek(newlines=True)
            if following is None or following.text not in ("=", ":"):
                return None
            self._at += 1
            self._peek()
            entries[_plain(token)] = self._item(depth + 1)
            if (after := self._peek()) is not None and after.text == ",":
                self._at += 1
        self._at += 1
        return known(entries, span)

    def _item(self, depth: int) -> Value:
        self._peek()
        return self._expression(depth)

    def _skip(self) -> None:
        """Past an expression that cannot be read: to the end of its line outside brackets."""
        nesting = 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.text in ("{", "[", "("):
                nesting += 1
            elif token.text in ("}", "]", ")"):
                if nesting == 0:
                    return
                nesting -= 1
            elif nesting == 0 and (token.kind == "newline" or token.text == ","):
                return
            self._at += 1

    def _peek(self, newlines: bool = False) -> Token | None:
        """The next token; newlines are passed over unless they matter."""
        while not newlines and self._at < len(self._tokens) and self._tokens[self._at].kind == "newline":
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _span(self, start: int, end: int | None = None) -> Span:
        line = bisect_right(self._starts, start)
        column = start - self._starts[line - 1] + 1
        width = max(1, (end or start + 1) - start)
        return Span(self._unit, line, column, line, column + width)


def read_tokens(source: str) -> list[Token]:
    """The tokens of a text, up to one that is none."""
    found: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            break
        kind = match.lastgroup or ""
        end = match.end()
        if match.group("heredoc"):
            text, end = _heredoc(source, match)
            found.append(Token("heredoc", text, match.start(), end))
        elif kind != "space":
            found.append(Token(kind, match.group(), match.start(), end))
        position = end
    return found


def _heredoc(source: str, match: re.Match[str]) -> tuple[str, int]:
    closing = re.compile(rf"^[ \t]*{re.escape(match.group('mark'))}[ \t]*$", re.MULTILINE)
    end = closing.search(source, match.end())
    return (source[match.end() : end.start()], end.end()) if end else (source[match.end() :], len(source))


def _plain(token: Token) -> str:
    if token.kind != "text":
        return token.text
    return re.sub(r"\\(.)", lambda match: str(_ESCAPES.get(match.group(1), match.group(1))), token.text[1:-1])
