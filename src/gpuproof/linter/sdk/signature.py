"""Signatures of SDK callables, parsed from the compact texts in the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Unknown = Literal["error", "ignored", "open"]
"""The effect of an unknown keyword: a TypeError or validation error, none, or unknown because it is passed on."""


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Args:
        required: whether the call fails without it.
        keyword_only: whether it can be passed only by name.
        default: the Python source of a number, boolean or short string default; else None.
    """

    name: str
    required: bool = False
    keyword_only: bool = False
    default: str | None = None


@dataclass(frozen=True)
class Signature:
    """The parameters of a class, function or method, including those that base classes take through `**kwargs`.

    Args:
        path: where it is defined: `sagemaker.pytorch.estimator.PyTorch`.
        parameters: in order, without `self`.
        dropped: deprecated keywords without an effect.
    """

    path: str
    parameters: tuple[Parameter, ...]
    unknown: Unknown
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Its last name, for messages."""
        return self.path.rpartition(".")[2]

    @property
    def positional(self) -> tuple[str, ...]:
        """Parameters that can be passed by position, in order."""
        return tuple(each.name for each in self.parameters if not each.keyword_only)

    @property
    def required(self) -> tuple[str, ...]:
        """Required parameters."""
        return tuple(each.name for each in self.parameters if each.required)

    def accepts(self, keyword: str) -> bool:
        """Whether a keyword is a parameter or a deprecated name."""
        return keyword in self.names or keyword in self.renamed or keyword in self.dropped

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all parameters."""
        return frozenset(each.name for each in self.parameters)


def read_signature(path: str, text: str, runs: list[str]) -> Signature:
    """Parse a signature from a text such as `ignored role! volume=30 * tags old>new -gone &0`.

    Args:
        text: the effect of unknown keywords, then parameters (`!` required, `=` default, keyword-only after `*`),
            renamed and dropped words; `&0` stands for the first of the runs.
        runs: sequences of words that many texts share.
    """
    words = text.split(" ")
    while any(word.startswith("&") for word in words):
        words = [
            part for word in words for part in (runs[int(word[1:])].split(" ") if word[0] == "&" else (word,))
        ]
    parameters: list[Parameter] = []
    renamed: dict[str, str] = {}
    dropped: set[str] = set()
    keyword_only = False
    for word in words[1:]:
        if word == "*":
            keyword_only = True
        elif word.startswith("-"):
            dropped.add(word[1:])
        elif "=" in word:
            name, _, default = word.partition("=")
            parameters.append(Parameter(name, False, keyword_only, default))
        elif ">" in word:
            old, _, new = word.partition(">")
            renamed[old] = new
        else:
            parameters.append(Parameter(word.rstrip("!"), word.endswith("!"), keyword_only))
    unknown: Unknown = "error" if words[0] == "error" else "ignored" if words[0] == "ignored" else "open"
    return Signature(path, tuple(parameters), unknown, renamed, frozenset(dropped))
