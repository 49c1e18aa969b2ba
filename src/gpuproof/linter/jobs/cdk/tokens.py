"""Tokens and imports of TypeScript, for the programs of the CDK."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
    | (?P<template>`(?:\\.|\$\{(?:[^{}`]|\{[^{}]*\})*\}|[^`\\])*`)
    | (?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_$][\w$]*)
    | (?P<mark>\.\.\.|=>|\?\?|\?\.|[{}\[\]()<>,:;.=?!+\-*/%&|^~@\#])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_IMPORT = re.compile(
    r"import\s+(?:type\s+)?(?:(?:\w+\s*,\s*)?\*\s+as\s+(?P<all>\w+)|(?P<default>\w+)?\s*,?\s*(?:\{(?P<names>[^}]*)\})?)\s*from\s*"
    r"['\"](?P<module>[^'\"]+)['\"]"
)
OPENING = {"(": ")", "[": "]", "{": "}"}
_ESCAPES = {"n": "\n", "t": "\t"}


@dataclass(frozen=True)
class Token:
    """One token, with its offsets in the source."""

    kind: str
    text: str
    start: int
    end: int


def read_tokens(source: str) -> list[Token]:
    """The tokens of a program, without spaces and comments."""
    return [
        Token(match.lastgroup or "", match.group(), match.start(), match.end())
        for match in _TOKEN.finditer(source)
        if match.lastgroup != "space"
    ]


def read_aliases(source: str) -> dict[str, str]:
    """The names that imports from the CDK bind, with what they stand for."""
    found: dict[str, str] = {}
    for match in _IMPORT.finditer(source):
        module = match["module"]
        if not module.startswith(("aws-cdk-lib", "@aws-cdk/")):
            continue
        inner = module.partition("aws-cdk-lib")[2].lstrip("/") if module.startswith("aws-cdk-lib") else module
        for name in (match["all"], match["default"]):
            if name:
                found[name] = inner or "aws-cdk-lib"
        for item in (match["names"] or "").split(","):
            imported, _, alias = (part.strip() for part in item.strip().partition(" as "))
            if imported:
                found[alias or imported] = f"{inner}.{imported}" if inner else imported
    return found


def keys(tokens: list[Token]) -> list[str]:
    """The keys of an object, as they are written."""
    depth, found = 0, list[str]()
    for index, token in enumerate(tokens):
        if token.kind == "mark" and token.text in OPENING:
            depth += 1
        elif token.kind == "mark" and token.text in OPENING.values():
            depth -= 1
        elif depth == 1 and token.kind in ("name", "text") and tokens[index - 1].text in ("{", ","):
            found.append(token.text if token.kind == "name" else unescaped(token.text[1:-1]))
    return found


def unescaped(text: str) -> str:
    """The text of a literal with its escapes replaced."""
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(1)), text)
