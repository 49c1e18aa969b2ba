"""Reads the constructs of a CDK program in TypeScript with a tokenizer; values of other expressions are unknown.

It understands imports, `const` with one declaration, literals, templates, arrays, objects, `new` and calls of the library.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from gpuproof.linter.analysis.values import Entries, Value, known
from gpuproof.linter.jobs.cdk.constructs import (
    Construct,
    enumeration,
    is_construct,
    is_raw,
    properties_of,
    qualified_name,
    result_of,
    snake_case,
    with_platform,
)
from gpuproof.linter.jobs.cdk.tokens import OPENING, Token, keys, read_aliases, read_tokens, unescaped
from gpuproof.linter.source.span import Span, Unit

_METHODS = ("addContainer", "addToPolicy", "addToRolePolicy", "addNodegroupCapacity")
_MAX_DEPTH = 24
_MAX_STEPS = 50_000
"""Expressions of one file that are read; constants can repeat others without end."""


def constructs(unit: Unit) -> list[Construct]:
    """The constructs that a program creates, in order; empty if it cannot be read."""
    reader = _Reader(unit)
    return reader.constructs() if reader.aliases else []


class _Reader:
    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        source = unit.source
        self._starts = [0, *(match.end() for match in re.finditer("\n", source))]
        self._tokens = read_tokens(source)
        self.aliases = read_aliases(source)
        self._constants = self._find_constants()
        self._at = 0
        self._depth = 0
        self._steps = 0

    def constructs(self) -> list[Construct]:
        """Every `new` of a class of the library, and every call of a method that adds something."""
        found: list[Construct] = []
        for index, token in enumerate(self._tokens):
            if token.kind == "name" and token.text == "new":
                self._at = index + 1
                name = self._dotted()
                shared = self._shared(name)
                if shared and is_construct(shared) and self._text() == "(":
                    arguments = self._arguments()
                    found.append(_construct(shared, arguments[1:], self._span(token)))
            elif token.text in _METHODS and self._follows(index, ".") and self._is(index + 1, "("):
                self._at = index + 1
                added = _construct(snake_case(token.text), self._arguments(), self._span(token))
                if self._is_fargate(index - 2):
                    added = added._replace(properties=with_platform(added.properties, "FARGATE"))
                found.append(added)
        return found

    def _is_fargate(self, index: int) -> bool:
        """Whether the object at a position is a constant that is a task definition of Fargate."""
        start = self._constants.get(self._tokens[index].text) if index >= 0 else None
        following = [token.text for token in self._tokens[start : start + 6]] if start is not None else []
        return following[:1] == ["new"] and "FargateTaskDefinition" in following

    def _find_constants(self) -> dict[str, int]:
        """The position of the value of each constant with one declaration."""
        found: dict[str, int] = {}
        repeated: set[str] = set()
        for index, token in enumerate(self._tokens[:-2]):
            if token.text not in ("const", "readonly") or self._tokens[index + 1].kind != "name":
                continue
            name, position = self._tokens[index + 1].text, index + 2
            if self._is(position, ":"):
                while position < len(self._tokens) and self._tokens[position].text not in ("=", ";", "\n"):
                    position += 1
            if self._is(position, "="):
                if name in found:
                    repeated.add(name)
                found[name] = position + 1
        return {name: position for name, position in found.items() if name not in repeated}

    def _expression(self) -> Value:
        """The value of an expression, up to the comma, bracket or semicolon that ends it."""
        start = self._at
        token = self._peek()
        self._steps += 1
        if token is None or self._depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            self._skip()
            return Value("unknown")
        self._depth += 1
        value = self._primary(token)
        self._depth -= 1
        if self._text() == "as":
            while self._text() not in (",", ")", "]", "}", ";", ""):
                self._at += 1
        elif self._text() == "!":
            self._at += 1
        if value is not None and self._text() in (",", ")", "]", "}", ";", ""):
            return value
        self._at = start
        self._skip()
        return Value("unknown", (), self._span(token))

    def _primary(self, token: Token) -> Value | None:
        span = self._span(token)
        self._at += 1
        match token.kind, token.text:
            case "text", text:
                return known(unescaped(text[1:-1]), span)
            case "template", text:
                return self._template(text[1:-1], span)
            case "number", text:
                digits = text.replace("_", "")
                return known(float(digits) if re.search(r"[.eE]", digits) else int(digits), span)
            case "name", "true" | "false":
                return known(token.text == "true", span)
            case "name", "undefined" | "null":
                return known(None, span)
            case "name", "new":
                return self._called(self._dotted(), span)
            case "name", _:
                self._at -= 1
                return self._named(span)
            case "mark", "[":
                return self._list(span)
            case "mark", "{":
                return self._object(span)
            case "mark", "(":
                value = self._expression()
                self._at += 1
                return value
            case _:
                return None

    def _named(self, span: Span) -> Value | None:
        """A constant, a member of an enumeration, or a call of the library."""
        dotted = self._dotted()
        if self._text() == "(":
            return self._called(dotted, span)
        shared = self._shared(dotted)
        if shared and (found := enumeration(shared, span)) is not None:
            return found
        if dotted in self._constants and self._depth < _MAX_DEPTH:
            here, self._at = self._at, self._constants[dotted]
            value = self._expression()
            self._at = here
            return value.with_span(span)
        return Value("unknown", (), span)

    def _called(self, dotted: str, span: Span) -> Value:
        arguments = self._arguments() if self._text() == "(" else []
        shared = self._shared(dotted)
        while self._text() in (".", "?."):  # a method of the result
            self._at += 1
            self._dotted()
            if self._text() == "(":
                self._arguments()
            shared = ""
        if not shared:
            return Value("unknown", (), span)
        last = arguments[-1] if arguments and arguments[-1].entries is not None else known(Entries())
        return result_of(shared, arguments, last, span)

    def _list(self, span: Span) -> Value | None:
        items: list[Value] = []
        while self._text() not in ("]", ""):
            if self._text() == "...":
                self._skip_to("]")
                self._at += 1
                return Value("unknown", (), span)
            before = self._at
            items.append(self._expression())
            if self._text() == ",":
                self._at += 1
            if self._at == before:
                return None
        self._at += 1
        return known(tuple(items), span)

    def _object(self, span: Span) -> Value | None:
        members: dict[str, Value] = {}
        complete, raw = True, False
        while (token := self._peek()) is not None and token.text != "}":
            before = self._at
            if token.text == "...":
                complete = False
                self._skip()
            elif token.kind in ("name", "text") and self._is(self._at + 1, ":"):
                self._at += 2
                name = token.text if token.kind == "name" else unescaped(token.text[1:-1])
                raw = raw or not name.isidentifier()
                members[name] = self._raw() if is_raw(name) else self._expression()
            elif token.kind == "name" and (self._is(self._at + 1, ",") or self._is(self._at + 1, "}")):
                members[token.text] = self._expression()  # shorthand: `{ vpc }`
            else:
                complete = False
                self._skip()
            if self._text() == ",":
                self._at += 1
            if self._at == before:
                self._at += 1
        self._at += 1
        if raw:
            entries = Entries(members)
            entries.complete = complete
            return known(entries, span)
        return properties_of(members, complete=complete, span=span)

    def _raw(self) -> Value:
        """An object whose keys are names of the user."""
        token = self._peek()
        if token is None or token.text != "{":
            return self._expression()
        begin = self._at
        value = self._expression()
        names = keys(self._tokens[begin : self._at])
        entries = value.entries
        if entries is None or len(names) != len(entries):
            return value
        renamed = Entries(zip(names, entries.values(), strict=True))
        renamed.complete = entries.complete
        return known(renamed, value.span)

    def _arguments(self) -> list[Value]:
        """The arguments of a call, from its opening parenthesis past the closing one."""
        self._at += 1
        found: list[Value] = []
        while self._text() not in (")", ""):
            before = self._at
            found.append(self._expression())
            if self._text() == ",":
                self._at += 1
            if self._at == before:
                self._at += 1
        self._at += 1
        return found

    def _template(self, text: str, span: Span) -> Value:
        """The text of a template, with constants replaced; unknown with a prefix and a suffix if one is not known."""

        def value(match: re.Match[str]) -> str:
            inner = match.group(1).strip()
            if inner not in self._constants or self._depth > _MAX_DEPTH:
                return match.group()
            here, self._at = self._at, self._constants[inner]
            found = self._expression().text
            self._at = here
            return match.group() if found is None else found

        whole = re.sub(r"\$\{([^{}]*)\}", value, text)
        if "${" not in whole:
            return known(unescaped(whole), span)
        return Value("unknown", (), span, whole.partition("${")[0], whole.rpartition("}")[2])

    def _dotted(self) -> str:
        """A dotted name from here on: `ec2.InstanceType.of`."""
        parts: list[str] = []
        while (token := self._peek()) is not None and token.kind == "name":
            parts.append(token.text)
            self._at += 1
            if self._text() not in (".", "?."):
                break
            self._at += 1
        if self._text() == "<":
            self._skip_generic()
        return ".".join(parts)

    def _shared(self, dotted: str) -> str:
        first, _, rest = dotted.partition(".")
        if first not in self.aliases:
            return ""
        return qualified_name(f"{self.aliases[first]}.{rest}" if rest else self.aliases[first])

    def _skip_generic(self) -> None:
        """Past `<Type>` before the parenthesis of a call; nothing if it is a comparison."""
        position = self._at
        while position < len(self._tokens) and self._tokens[position].text not in (">", "(", ";", ")"):
            position += 1
        if self._is(position, ">") and self._is(position + 1, "("):
            self._at = position + 1

    def _skip(self) -> None:
        """Past an expression that is not understood, to the comma or bracket that ends it."""
        while (token := self._peek()) is not None:
            if token.kind == "mark" and token.text in OPENING:
                self._at += 1
                self._skip_to(OPENING[token.text])
            elif token.text in (",", ";", ")", "]", "}"):
                return
            self._at += 1

    def _skip_to(self, closing: str) -> None:
        """To the bracket that closes the one before this position."""
        depth = 0
        while (token := self._peek()) is not None and (depth or token.text != closing):
            if token.kind == "mark":
                depth += (token.text in OPENING) - (token.text in OPENING.values())
            self._at += 1

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _text(self) -> str:
        token = self._peek()
        return token.text if token is not None else ""

    def _is(self, index: int, text: str) -> bool:
        return index < len(self._tokens) and self._tokens[index].text == text

    def _follows(self, index: int, text: str) -> bool:
        return index > 0 and self._tokens[index - 1].text == text

    def _span(self, token: Token) -> Span:
        line = bisect_right(self._starts, token.start)
        column = token.start - self._starts[line - 1] + 1
        end = token.end if "\n" not in token.text else token.start + 1
        return Span(self._unit, line, column, line, column + end - token.start)


def _construct(name: str, arguments: list[Value], span: Span) -> Construct:
    """A construct of its arguments after the scope: the id and the properties."""
    identity = next((value.text for value in arguments if value.text is not None), "")
    properties = next((value for value in arguments if value.entries is not None), None)
    if properties is None:
        unknown = Entries()
        unknown.complete = not any(value.is_unknown for value in arguments)
        properties = known(unknown, span)
    return Construct(name, identity, properties, span)
