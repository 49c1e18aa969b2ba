"""Finds syntax errors in Terraform files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuproof.linter.templates.terraform import Token, read_tokens

_LABELS = {"resource": 2, "data": 2, "variable": 1, "output": 1, "module": 1, "provider": 1}
"""Labels of blocks at the top level of a file."""
_VALUES = ("text", "number", "heredoc")
_Problem = tuple[int, str]


def problem(source: str) -> tuple[int, str] | None:
    """The line and message of the first syntax error; None without one, or if an expression is beyond the tokenizer."""
    tokens = read_tokens(source)
    found = _string_problem(source, tokens)
    if found is None and not any(token.kind == "other" and token.text == '"' for token in tokens):
        found = _structure_problem(tokens)
    if found is None:
        return None
    start, message = found
    return source.count("\n", 0, start) + 1, message


def _string_problem(source: str, tokens: list[Token]) -> tuple[int, str] | None:
    for token in tokens:
        if (
            token.kind == "heredoc"
            and token.text
            and token.end == len(source)
            and source.endswith(token.text)
        ):
            return token.start, "the heredoc has no closing marker"
        if token.kind == "other" and token.text == '"':
            end = source.find("\n", token.start)
            line = source[token.start : end if end >= 0 else None]
            if "${" not in line and "%{" not in line and len(re.findall(r'(?<!\\)"', line)) % 2:
                return token.start, "the string is never closed"
            return None
    return None


_CLOSING = {"}": "{", "]": "[", ")": "("}


@dataclass
class _Open:
    """A bracket that is open; a block if names and labels only are before its brace."""

    token: Token
    is_block: bool = False
    names: set[str] = field(default_factory=set[str])


def _structure_problem(tokens: list[Token]) -> _Problem | None:
    """An unbalanced bracket, an attribute without a value or on the line of another one, a name that nothing follows."""
    opened: list[_Open] = []
    for index, token in enumerate(tokens):
        around = opened[-1] if opened else None
        if token.kind == "mark_" and token.text in _CLOSING.values():
            opened.append(_Open(token, token.text == "{" and _begins_block(tokens, index)))
        elif token.kind == "mark_" and token.text in _CLOSING:
            if around is None or around.token.text != _CLOSING[token.text]:
                return token.start, f"`{token.text}` closes nothing that is open"
            opened.pop()
        elif (found := _problem_at(tokens, index, around)) is not None:
            return found
    if opened:
        return opened[-1].token.start, f"`{opened[-1].token.text}` is never closed"
    return None


def _problem_at(tokens: list[Token], index: int, around: _Open | None) -> _Problem | None:
    """What is wrong with a token that is no bracket."""
    token = tokens[index]
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if token.text == "=" and token.kind == "mark_":
        if following is None or following.kind == "newline" or following.text == "}":
            return token.start, "there is no value after `=`"
        if _shares_line(tokens, index):
            return tokens[index - 1].start, f"`{tokens[index - 1].text}` needs a line of its own"
    in_body = around is None or around.is_block
    if in_body and token.kind == "mark_" and token.text == ",":
        return token.start, "a block has no commas between its attributes"
    if around is not None and around.token.text == "[" and token.kind == "text":
        after = next((other for other in tokens[index + 1 :] if other.kind != "newline"), None)
        if after is not None and after.kind in _VALUES:
            return after.start, "there is no comma before this item"
    if not _starts_statement(tokens, index) or token.kind != "name":
        return None
    if in_body and following is not None and following.kind == "mark_" and following.text == ":":
        return following.start, f"`{token.text}` is assigned with `:` instead of `=`"
    if around is None or around.token.text == "{":
        if _is_unfinished(tokens, index):
            return token.start, f"`{token.text}` is followed by neither `=` nor a block"
        if around is None and (problem := _label_problem(tokens, index)) is not None:
            return problem
    if around is not None and around.is_block and following is not None and following.text == "=":
        if token.text in around.names:
            return token.start, f"`{token.text}` is set twice in this block"
        around.names.add(token.text)
    return None


def _starts_statement(tokens: list[Token], index: int) -> bool:
    before = tokens[index - 1] if index else None
    return before is None or before.kind == "newline" or before.text == "{"


def _begins_block(tokens: list[Token], index: int) -> bool:
    """Whether names and labels only are before a brace, back to the start of its statement."""
    at = index - 1
    while at >= 0 and tokens[at].kind in ("name", "text"):
        at -= 1
    return at < index - 1 and (at < 0 or tokens[at].kind == "newline" or tokens[at].text == "{")


def _shares_line(tokens: list[Token], index: int) -> bool:
    """Whether the attribute that `=` assigns is on the line of the value before it."""
    if index < 2 or tokens[index - 1].kind != "name" or tokens[index + 1].text in ("=", ">"):
        return False
    before = tokens[index - 2]
    return before.kind in ("text", "number") or (before.kind == "mark_" and before.text in ("]", "}", ")"))


def _label_problem(tokens: list[Token], index: int) -> _Problem | None:
    """A block at the top level that has too few or too many labels."""
    expected = _LABELS.get(tokens[index].text)
    end = index + 1
    while end < len(tokens) and tokens[end].kind in ("name", "text"):
        end += 1
    if expected is None or end >= len(tokens) or tokens[end].text != "{" or end - index - 1 == expected:
        return None
    labels = "two labels: its type and its name" if expected == 2 else "one label: its name"
    return tokens[index].start, f"`{tokens[index].text}` needs {labels}"


def _is_unfinished(tokens: list[Token], index: int) -> bool:
    """Whether a statement begins at a token and ends after names and labels only."""
    before = tokens[index - 1] if index else None
    starts = before is None or before.kind == "newline" or before.text == "{"
    if not starts or tokens[index].kind != "name" or tokens[index].text in ("for", "if"):
        return False
    end = index + 1
    while end < len(tokens) and tokens[end].kind in ("name", "text"):
        end += 1
    return end >= len(tokens) or tokens[end].kind == "newline" or tokens[end].text == "}"
