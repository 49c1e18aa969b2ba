"""Splits shell text into simple commands, with variables replaced where their values are certain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuproof.linter.jobs.commands import ALL_ARGUMENTS

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
_BRACED = re.compile(r"([A-Za-z_]\w*|[0-9@*])(?:\[[@*]\])?(?::?[-=](.*))?", re.DOTALL)
_WORDS = re.compile(r"(?:\$\([^)]*\)|\S)+")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_OPENING = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac"})
_KEYWORDS = frozenset({"then", "do", "else", "elif", "{", "}", "!", "time", "exec", "command", "nohup", "in"})
_HEADS = frozenset({"for", "case", "select", "function"})
"""Words that start a line without a command: `for x in a b`."""


@dataclass
class Shell:
    """The state of a shell between two commands.

    Args:
        variables: the values that are certain.
        exported: variables that programs see.
        positional: the arguments of the script; `ALL_ARGUMENTS` where they are unknown.
    """

    variables: dict[str, str] = field(default_factory=dict[str, str])
    exported: set[str] = field(default_factory=set[str])
    positional: tuple[str, ...] = (ALL_ARGUMENTS,)

    def value(self, name: str) -> str | None:
        """The value of a variable or positional parameter; None if it is unknown."""
        if name.isdigit():
            index = int(name) - 1
            known = 0 <= index < len(self.positional) and ALL_ARGUMENTS not in self.positional[: index + 1]
            return self.positional[index] if known else None
        return self.variables.get(name)


class Place(NamedTuple):
    """Where a word is in a text: line and column, from 1."""

    line: int
    column: int


class Redirection(NamedTuple):
    """A redirection of a command.

    Attributes:
        operator: such as `>` or `<`.
        target: the file.
        glued: the word that it follows without a space: `torch` in `torch>=2`; empty with a space before.
        place: of the operator.
    """

    operator: str
    target: str
    glued: str
    place: Place


@dataclass(frozen=True)
class SimpleCommand:
    """One command of a shell text.

    Args:
        words: the program and its arguments; a word whose value is unknown contains `$`.
        assignments: variables that are set for this command alone: `X=1 python a.py`.
        line: its line in the text, from 1.
        is_conditional: whether it is inside an `if`, a `case` or a loop, or follows `||`.
        places: where each of the words is.
        operator: what ends it: `&`, `|`, `&&`, a line break; empty at the end of the text.
    """

    words: tuple[str, ...]
    assignments: tuple[tuple[str, str], ...] = ()
    line: int = 1
    is_conditional: bool = False
    places: tuple[Place, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    operator: str = ""


def commands(text: str, shell: Shell) -> Iterator[SimpleCommand]:
    """The simple commands of a shell text in its order; assignments and `export` change the state of the shell.

    Assignments and exports alone are no commands.
    """
    depth, after_or = 0, False
    for written, line, operator, places, redirections in _Scanner(text, shell).commands():
        words, opened = _without_keywords(written)
        depth = max(0, depth + opened)
        if not words:
            after_or = operator == "||"
            continue
        assignments = _assignments(words)
        words = words[len(assignments) :]
        if words and words[0] in ("export", "declare", "local", "readonly"):
            for match in filter(None, map(_ASSIGNMENT.fullmatch, words[1:])):
                _assign(shell, match.group(1), match.group(2), certain=depth == 0)
            if words[0] == "export":
                shell.exported |= {name for word in words[1:] if (name := word.partition("=")[0])}
        elif words:
            kept = tuple(places[len(places) - len(words) :])
            conditional = depth > 0 or after_or
            yield SimpleCommand(
                tuple(words), tuple(assignments), line, conditional, kept, tuple(redirections), operator
            )
        else:
            for name, value in assignments:
                _assign(shell, name, value, certain=depth == 0)
        after_or = operator == "||"


def _assignments(words: Sequence[str]) -> list[tuple[str, str]]:
    """The assignments at the start of a command."""
    found: list[tuple[str, str]] = []
    for word in words:
        if (match := _ASSIGNMENT.fullmatch(word)) is None:
            break
        found.append((match.group(1), match.group(2)))
    return found


def _assign(shell: Shell, name: str, value: str, *, certain: bool) -> None:
    """Set a variable; one that an `if` or a loop may change is unknown, unless it only gets longer."""
    if certain:
        shell.variables[name] = value
    elif not value.startswith(shell.variables.get(name, "$")):
        shell.variables.pop(name, None)


def _without_keywords(written: Sequence[str]) -> tuple[Sequence[str], int]:
    """The words of a command after `then`, `do`, …, and by how much they change the depth of conditions."""
    words, depth = written, 0
    while words:
        word = words[0]
        if word in _CLOSING:
            depth -= 1
        elif word in _OPENING:
            depth += 1
            if word in _HEADS:
                return (), depth
        elif word == "function" or word.endswith("()"):
            return (), depth
        elif word not in _KEYWORDS and not (word.endswith(")") and "(" not in word):
            break
        words = words[1:]
    return words, depth


class _Scanner:
    """Reads words, with quotes and expansions as in a POSIX shell."""

    def __init__(self, text: str, shell: Shell) -> None:
        self._text = text
        self._shell = shell
        self._at = 0
        self._line = 1
        self._parentheses = 0

    def commands(self) -> Iterator[tuple[list[str], int, str, list[Place], list[Redirection]]]:
        """The words of each command, its line, the operator that ends it, and where its words and redirections are."""
        words: list[str] = []
        places: list[Place] = []
        redirections: list[Redirection] = []
        first = 1
        while self._at < len(self._text):
            text = self._text
            character = text[self._at]
            if text.startswith("\\\n", self._at):
                self._skip(2)
            elif character in " \t\r":
                self._at += 1
            elif character == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif character in "\n;&|":
                double = text[self._at : self._at + 2]
                operator = double if double in ("&&", "||", ";;") else character
                if words:
                    yield words, first, operator, places, redirections
                words, places, redirections = [], [], []
                self._skip(len(operator))
            elif character in "()":
                self._parentheses += 1 if character == "(" else -1
                self._at += 1
            elif self._is_process_substitution():
                words.append(self._process_substitution())
                places.append(self._place())
            elif character in "<>":
                before = self._text[self._at - 1 : self._at]
                glued = words[-1] if words and before not in ("", " ", "\t", "\n") else ""
                if (found := self._redirection(glued)) is not None:
                    redirections.append(found)
            else:
                if not words:
                    first = self._line
                place = self._place()
                found_words = self._word()
                words += found_words
                places += [place] * len(found_words)
        if words:
            yield words, first, "", places, redirections

    def _place(self) -> Place:
        return Place(self._line, self._at - self._text.rfind("\n", 0, self._at))

    def _skip(self, length: int) -> None:
        self._line += self._text.count("\n", self._at, self._at + length)
        self._at += length

    def _redirection(self, glued: str) -> Redirection | None:
        heredoc = _HEREDOC.match(self._text, self._at)
        if heredoc is None:
            place, start = self._place(), self._at
            while (
                self._at < len(self._text)
                and self._text[self._at] in "<>&| \t"
                and not self._is_process_substitution()
            ):
                self._at += 1
            operator = self._text[start : self._at].strip()
            target: list[str] = []
            if self._is_process_substitution():
                target = [self._process_substitution()]
            elif self._at < len(self._text) and self._text[self._at] not in "\n;()":
                target = self._word()
            return Redirection(operator, " ".join(target), glued, place)
        # The text after the line up to the delimiter is input, not commands.
        self._at = heredoc.end()
        end = re.compile(rf"^\t*{re.escape(heredoc.group(2))}[ \t]*$", re.MULTILINE)
        line_end = self._text.find("\n", self._at)
        found = end.search(self._text, line_end + 1) if line_end >= 0 else None
        if found is not None:
            rest = self._text[self._at : line_end]
            skipped = self._text[line_end : found.end()]
            # Lines keep their numbers.
            self._text = (
                self._text[: self._at] + rest + "\n" * skipped.count("\n") + self._text[found.end() :]
            )
        return None

    def _is_process_substitution(self) -> bool:
        return self._text.startswith(("<(", ">("), self._at)

    def _process_substitution(self) -> str:
        """The file of `<(sort a)` or `>(tee log)`; what runs there only reads or writes the text of the command."""
        self._skip(_closing(self._text, self._at + 1) + 1 - self._at)
        return "/dev/fd/63"

    def _word(self) -> list[str]:
        text, parts, is_quoted = self._text, [""], False
        while self._at < len(text):
            character = text[self._at]
            if character in " \t\r\n;&|<>":
                if character in "<>" and len(parts) == 1 and parts[0].isdigit():
                    return []  # the number of a file descriptor
                break
            if character == "(" and parts[-1].endswith("=") and len(parts) == 1:
                parts[-1] += self._array()
                is_quoted = True
                continue
            if character == ")" and "(" not in parts[-1]:
                if self._parentheses < 1:
                    # A pattern of `case`; `_without_keywords` drops it.
                    parts[-1] += ")"
                    self._at += 1
                break
            if character == "\\":
                if text[self._at + 1 : self._at + 2] != "\n":
                    parts[-1] += text[self._at + 1 : self._at + 2]
                self._skip(2)
            elif character == "'":
                end = text.find("'", self._at + 1)
                end = len(text) if end < 0 else end
                parts[-1] += text[self._at + 1 : end]
                is_quoted = True
                self._skip(end + 1 - self._at)
            elif character == '"':
                self._at += 1
                is_quoted = True
                parts = self._double_quoted(parts)
            elif character in "$`":
                parts = _joined(parts, self._expansion())
            else:
                parts[-1] += character
                self._at += 1
        # An unquoted variable with spaces is several words; an empty one is none.
        if is_quoted:
            return parts
        return [
            word
            for part in parts
            for word in (_WORDS.findall(part) if " " in part or "\n" in part else [part])
            if word
        ]

    def _array(self) -> str:
        """The words of `NAME=(a b)` as one text, to the closing parenthesis."""
        end = _closing(self._text, self._at)
        inner = self._text[self._at + 1 : end]
        self._skip(end + 1 - self._at)
        return " ".join(word for words, *_ in _Scanner(inner, self._shell).commands() for word in words)

    def _double_quoted(self, parts: list[str]) -> list[str]:
        text = self._text
        while self._at < len(text) and text[self._at] != '"':
            character = text[self._at]
            if character == "\\" and text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                parts[-1] += "" if text[self._at + 1] == "\n" else text[self._at + 1]
                self._skip(2)
            elif character in "$`":
                parts = _joined(parts, self._expansion())
            else:
                parts[-1] += character
                self._skip(1)
        self._at += 1
        return parts

    def _expansion(self) -> list[str]:
        """The words that `$NAME`, `${NAME:-default}`, `$(command)` or `"$@"` stands for; the text itself if unknown."""
        text, start = self._text, self._at
        following = text[start + 1 : start + 2]
        if text[start] == "`" or following == "(":
            end = _closing(text, start + 1) if following == "(" else text.find("`", start + 1)
            self._skip((end if end > 0 else len(text) - 1) + 1 - start)
            inner = text[start : self._at]
            return [f"$({inner.strip('`')})" if inner.startswith("`") else inner]
        if following == "{":
            end = text.find("}", start)
            end = len(text) if end < 0 else end
            self._skip(end + 1 - start)
            name, fallback = text[start + 2 : end], None
            if match := _BRACED.fullmatch(name):
                name, fallback = match.group(1), _unquoted(match.group(2))
        else:
            match = _NAME.match(text, start + 1)
            name, fallback = (match.group() if match else following), None
            self._at = start + 1 + len(name)
        if name in ("@", "*"):
            return list(self._shell.positional)
        found = self._shell.value(name)
        if found is None and fallback and "$" not in fallback and not self._is_argument(name):
            found = fallback
        written = text[start : self._at]
        if found is not None and ("[@]" in written or "[*]" in written):
            return _WORDS.findall(found)
        return [written if found is None else found]

    def _is_argument(self, name: str) -> bool:
        """Whether a positional parameter may have been passed, so that its default does not count."""
        return name.isdigit() and ALL_ARGUMENTS in self._shell.positional


def _unquoted(text: str | None) -> str | None:
    """A default without the quotes around all of it: `${MODE:-"-d"}`."""
    is_quoted = text is not None and len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if text is not None and is_quoted else text


def _joined(parts: list[str], more: list[str]) -> list[str]:
    if not more:
        return parts
    return [*parts[:-1], parts[-1] + more[0], *more[1:]]


def _closing(text: str, start: int) -> int:
    """The position of the parenthesis that closes the one at a position; the last one of the text if there is none."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text) - 1
