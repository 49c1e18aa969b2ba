"""Tokenizers of models on the Hugging Face Hub, by the model's name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.util.csv_table import read_rows

_TOKENIZER = re.compile(r"^transformers\.(\w+\.)*\w*Tokenizer(Fast)?\.from_pretrained$")


class Vocabulary(NamedTuple):
    """The vocabulary of a tokenizer.

    Attributes:
        family: models of one family have the same vocabulary.
        has_padding: whether it has a padding token.
    """

    family: str
    has_padding: bool


class TokenizerLoad(NamedTuple):
    """A call that loads a tokenizer of a known vocabulary."""

    call: Call
    name: Value
    vocabulary: Vocabulary


def vocabulary(name: str) -> Vocabulary | None:
    """The vocabulary of a model; None if it is unknown."""
    last = name.rpartition("/")[2].lower()
    found = max((prefix for prefix in _table() if last.startswith(prefix)), key=len, default=None)
    return _table()[found] if found is not None else None


def tokenizer_loads(module: Module) -> list[TokenizerLoad]:
    """The calls in a module that load a tokenizer of a known vocabulary."""
    found: list[TokenizerLoad] = []
    for call in calls_named(module, "from_pretrained"):
        if not _TOKENIZER.match(call.name or ""):
            continue
        name = call.argument("pretrained_model_name_or_path", 0)
        known = vocabulary(name.text) if name.text and not name.text.startswith(("/", ".")) else None
        if known is not None:
            found.append(TokenizerLoad(call, name, known))
    return found


@cache
def _table() -> dict[str, Vocabulary]:
    path = Path(__file__).parents[2] / "data" / "tokenizers.csv"
    return {row["prefix"]: Vocabulary(row["family"], row["pad"] == "yes") for row in read_rows(path)}
