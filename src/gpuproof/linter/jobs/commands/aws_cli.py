"""Reads requests of the AWS CLI in shell scripts and Makefiles: `aws sagemaker create-training-job --resource-config …`.

Values are JSON, `file://` paths and the shorthand syntax. Source:
https://docs.aws.amazon.com/cli/latest/userguide/cli-usage-shorthand.html, 2026-11-29.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.linter.analysis.values import ABSENT, UNKNOWN, Entries, Value, known
from gpuproof.linter.jobs.commands.shell import Place, SimpleCommand
from gpuproof.linter.jobs.commands.unit_commands import span_of, unit_commands
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.span import Span, Unit

_GLOBAL = frozenset(
    [
        "--region",
        "--profile",
        "--output",
        "--endpoint-url",
        "--query",
        "--color",
        "--ca-bundle",
        "--cli-read-timeout",
        "--cli-connect-timeout",
        "--cli-binary-format",
        "--max-items",
        "--page-size",
        "--starting-token",
    ]
)
"""Options of `aws` itself that take a value."""
_GLOBAL_FLAGS = frozenset(
    [
        "debug",
        "no-verify-ssl",
        "no-paginate",
        "no-sign-request",
        "no-cli-pager",
        "cli-auto-prompt",
        "no-cli-auto-prompt",
        "version",
        "dry-run",
        "no-dry-run",
    ]
)
_LISTS = frozenset(
    {
        "ProductionVariants",
        "ShadowProductionVariants",
        "InputDataConfig",
        "ProcessingInputs",
        "Containers",
        "Tags",
        "SecurityGroupIds",
        "SecurityGroups",
        "BlockDeviceMappings",
        "TagSpecifications",
    }
)
"""Members whose values are lists of what each word describes."""
_WORD = re.compile(r"(?P<key>[\w.-]+)=")
_PARAMETER = re.compile(
    r"\$\(\s*aws\s[^)]*\bssm\s+get-parameters?\b[^)]*--names?\s+[\"']?(/aws/service/[\w./-]+)[^)]*\)"
)
"""A command whose output is the value of a public parameter."""
_LEVELS = 4
_MAX_DEPTH = 12


@dataclass(frozen=True)
class CliRequest:
    """One request.

    Args:
        service: `sagemaker`, `ec2`, `batch`, `ecs`.
        operation: the method of boto3: `create_training_job`.
        members: the request, with the members' names of the API.
        span: of the operation in the file.
        region: of `--region`.
    """

    service: str
    operation: str
    members: Value
    span: Span
    region: Value = ABSENT


def cli_requests(unit: Unit) -> list[CliRequest]:
    """The requests of the AWS CLI in a file, in order."""
    if unit.kind not in ("shell", "makefile") or "aws" not in unit.source:
        return []
    return [request for command in unit_commands(unit) if (request := _request(unit, command)) is not None]


def _request(unit: Unit, command: SimpleCommand) -> CliRequest | None:
    words = command.words
    start = next((i for i, word in enumerate(words[:3]) if word in ("aws", "/usr/local/bin/aws")), None)
    if start is None:
        return None
    index, named = start + 1, list[int]()
    while index < len(words) and len(named) < 2:
        if words[index].startswith("--"):
            index += 2 if words[index] in _GLOBAL else 1
        else:
            named.append(index)
            index += 1
    if len(named) < 2:
        return None
    service, operation = (words[position] for position in named)
    entries, region = Entries(), ABSENT
    options = [*_options(unit, command, start + 1, named[0]), *_options(unit, command, index, len(words))]
    for option, values in options:
        if option == "region":
            region = values[0] if values else region
        elif option == "cli-input-json" or option == "cli-input-yaml":
            loaded = values[0] if values else UNKNOWN
            entries.complete = entries.complete and loaded.entries is not None
            for key, value in loaded.parts.items():
                entries.setdefault(key, value)
        elif option == "generate-cli-skeleton":
            return None
        elif f"--{option}" not in _GLOBAL and option not in _GLOBAL_FLAGS:
            name = _member(option.removeprefix("no-"))
            # A flag and its opposite: `--no-enable-network-isolation`.
            entries[name] = known(False) if option.startswith("no-") and not values else _joined(name, values)
    if any(
        re.match(r"\$[{@*(A-Za-z]", word) for word in words[index:] if "=" not in word and word[:2] == "$@"
    ):
        entries.complete = False
    span = span_of(unit, command.places[named[1]], operation)
    return CliRequest(service, operation.replace("-", "_"), known(entries, span), span, region)


def _options(unit: Unit, command: SimpleCommand, index: int, end: int) -> Iterator[tuple[str, list[Value]]]:
    words, places = command.words[:end], command.places
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("--"):
            continue
        option, equals, inline = word[2:].partition("=")
        values = [_value(unit, inline, places[index - 1])] if equals else list[Value]()
        while not equals and index < len(words) and not words[index].startswith("--"):
            values.append(_value(unit, words[index], places[index]))
            index += 1
        yield option, values


def _member(option: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in option.split("-"))


def _joined(name: str, values: list[Value]) -> Value:
    if not values:
        return known(True)
    if name in _LISTS:
        return values[0] if len(values) == 1 and values[0].items is not None else known(tuple(values))
    if len(values) == 1:
        return values[0]
    if all(value.entries is not None for value in values):
        merged = Entries()
        for value in values:
            merged |= value.entries or {}
        return known(merged, values[0].span)
    return known(tuple(values), values[0].span)


def _value(unit: Unit, word: str, place: Place) -> Value:
    """The value of one word: JSON, a file, shorthand, or a text."""

    def span(text: str) -> Span:
        return span_of(unit, place, text)

    if word.startswith(("file://", "fileb://")):
        return _of_file(unit, word.partition("://")[2], span(word))
    stripped = word.strip()
    if stripped.startswith(("{", "[")):
        try:
            return value_of(json.loads(stripped), span)
        except ValueError:
            return Value("unknown", (), span(word))
    if _WORD.match(stripped) and "://" not in stripped.partition("=")[0]:
        found, _ = _Shorthand(stripped, span).structure(0, top=True)
        return found
    return _scalar(word, span)


def value_of(document: Any, span: Callable[[str], Span]) -> Value:
    """A parsed JSON document as a value, each text with its position in the file."""
    if isinstance(document, dict):
        return known(Entries({str(key): value_of(item, span) for key, item in document.items()}), span("{"))
    if isinstance(document, list):
        return known(tuple(value_of(item, span) for item in document), span("["))
    if isinstance(document, str):
        return _text(document, span)
    return known(document, span(json.dumps(document)))


def _scalar(word: str, span: Callable[[str], Span]) -> Value:
    if re.fullmatch(r"-?\d+", word):
        return known(int(word), span(word))
    return known(word == "true", span(word)) if word in ("true", "false") else _text(word, span)


def _text(word: str, span: Callable[[str], Span]) -> Value:
    if (parameter := _PARAMETER.fullmatch(word.strip())) is not None:
        return known(f"resolve:ssm:{parameter.group(1)}", span(word))
    if "$" in word:
        prefix, suffix = word.partition("$")[0], re.split(r"\}|\)|\$\w+", word)[-1]
        return Value("unknown", (), span(word), prefix, suffix if suffix != word else "")
    return known(word, span(word))


def _of_file(unit: Unit, path: str, span: Span) -> Value:
    """The content of a file: a document if it is JSON or YAML, else its text."""
    if "$" in path:
        return Value("unknown", (), span)
    file = _found(unit, path)
    if file is None:
        return Value("unknown", (), span)
    try:
        text = decode(read_bytes(Path(file)))[0]
    except Unreadable:
        return Value("unknown", (), span)
    if path.endswith((".json", ".yaml", ".yml")):
        from gpuproof.linter.templates import cloudformation  # yaml: only where such a file is

        return cloudformation.document(Unit(file, text, "request"))
    return known(text, span)


def _found(unit: Unit, path: str) -> str | None:
    """The file that a path names, relative to where the command runs: the script's folder, or one above it."""
    folder = os.path.dirname(unit.path)  # noqa: PTH120
    for level in range(_LEVELS):
        file = os.path.normpath(os.path.join(folder, *[".."] * level, path))  # noqa: PTH118
        if os.path.isfile(file):  # noqa: PTH113
            return file
    return None


class _Shorthand:
    """Parses `Key=value,Key2={A=b},Key3=[x,y]`."""

    def __init__(self, text: str, span: Callable[[str], Span]) -> None:
        self._text = text
        self._span = span
        self._at = 0

    def structure(self, depth: int, *, top: bool = False) -> tuple[Value, bool]:
        """The members up to the closing brace, or the end of the text."""
        entries = Entries()
        begin = self._at
        while self._at < len(self._text) and depth < _MAX_DEPTH:
            match = _WORD.match(self._text, self._at)
            if match is None:
                break
            self._at = match.end()
            value = self._value(depth + 1)
            listed: list[Value] = []
            # `Key=a,b,c` is a list: what follows a comma has no key.
            while top and self._peek() == "," and _WORD.match(self._text, self._at + 1) is None:
                self._at += 1
                listed.append(self._value(depth + 1))
            entries[match["key"]] = known((value, *listed), value.span) if listed else value
            if self._peek() != ",":
                break
            self._at += 1
        return known(entries, self._span(self._text[begin : begin + 1])), True

    def _value(self, depth: int) -> Value:
        character = self._peek()
        if character == "{" and depth < _MAX_DEPTH:
            self._at += 1
            value, _ = self.structure(depth)
            self._skip("}")
            return value
        if character == "[" and depth < _MAX_DEPTH:
            self._at += 1
            items: list[Value] = []
            while self._peek() not in ("]", ""):
                items.append(self._value(depth + 1))
                self._skip(",")
            self._skip("]")
            return known(tuple(items))
        if character in ("'", '"'):
            end = self._text.find(character, self._at + 1)
            end = len(self._text) if end < 0 else end
            word, self._at = self._text[self._at + 1 : end], end + 1
            return _text(word, self._span)
        match = re.compile(r"(?:\$\{[^}]*\}|\$\([^)]*\)|\\.|[^,}\]])*").match(self._text, self._at)
        word = match.group() if match else ""
        self._at += len(word)
        if not word and self._at < len(self._text) and character not in (",", "}", "]"):
            self._at += 1
        return _scalar(word, self._span)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, character: str) -> None:
        if self._peek() == character:
            self._at += 1
