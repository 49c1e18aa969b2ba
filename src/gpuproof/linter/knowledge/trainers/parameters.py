"""The parameters that a call passes by name, also in `**settings`, with their positions."""

from __future__ import annotations

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.source.span import Span


def named_spans(call: Call) -> dict[str, Span]:
    """The position of each parameter that a call passes by name: of its value, or in a mapping that is passed as a whole."""
    found: dict[str, Span] = {}
    for keyword in call.node.keywords:
        if keyword.arg is not None:
            found[keyword.arg] = call.module.span(keyword.value)
            continue
        mapping = evaluate(call.module, keyword.value)
        for name, value in mapping.parts.items():
            found[str(name)] = value.span or call.module.span(keyword.value)
    return found
