"""What one call of the SDK accepts, read from the short text that the tables hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Unknown = Literal["error", "ignored", "open"]
"""What an unknown keyword meets: a TypeError or validation error, silence, or code that takes keywords onwards."""


@dataclass(frozen=True)
class Parameter:
    """One parameter.

    Args:
        name: its name.
        required: whether the call fails without it.
        keyword_only: whether it can be given by name alone.
        default: the default as Python writes it, where it is a number, a truth or a short text; else None.
    """

    name: str
    required: bool = False
    keyword_only: bool = False
    default: str | None = None


@dataclass(frozen=True)
class Signature:
    """What a class, function or method accepts, with everything that its bases take through `**kwargs`.

    Args:
        path: where it is defined: `sagemaker.pytorch.estimator.PyTorch`.
        parameters: in order, without `self`.
        unknown: what any other keyword meets.
        renamed: old keywords that are still understood, with the new ones; they warn.
        dropped: old keywords that are taken, warned about and forgotten.
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
    def swallows_kwargs(self) -> bool:
        """Whether a misspelt keyword is ignored without a word."""
        return self.unknown == "ignored"

    @property
    def positional(self) -> tuple[str, ...]:
        """Names that can be given by position, in order."""
        return tuple(each.name for each in self.parameters if not each.keyword_only)

    @property
    def required(self) -> tuple[str, ...]:
        """Names without which the call fails."""
        return tuple(each.name for each in self.parameters if each.required)

    def accepts(self, keyword: str) -> bool:
        """Whether the keyword means something: a parameter, or an old name of one."""
        return keyword in self.names or keyword in self.renamed or keyword in self.dropped

    @cached_property
    def names(self) -> frozenset[str]:
        """Every parameter's name."""
        return frozenset(each.name for each in self.parameters)


def read_signature(path: str, text: str, runs: list[str]) -> Signature:
    """The signature behind a text such as `ignored role! volume=30 * tags old>new -gone &0`.

    Args:
        path: what is called.
        text: what meets unknown words, then parameters (`!` required, `=` default, those after `*` by name alone),
            renamed and dropped words; `&0` stands for the first of the runs.
        runs: words that many texts share.
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
