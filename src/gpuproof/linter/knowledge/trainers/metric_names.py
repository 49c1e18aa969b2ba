"""Metrics by their names: whether more or less is better, and which names a LightningModule logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value

_MORE = frozenset(
    [
        "acc",
        "accuracy",
        "top1",
        "top5",
        "f1",
        "auc",
        "auroc",
        "precision",
        "recall",
        "iou",
        "miou",
        "dice",
        "bleu",
        "rouge",
        "rouge1",
        "rouge2",
        "rougel",
        "psnr",
        "ssim",
        "r2",
        "map",
        "map50",
        "ap",
        "kappa",
        "mcc",
        "jaccard",
        "pearson",
        "spearman",
        "accuracy1",
    ]
)
_LESS = frozenset(
    "loss error err mse rmse mae wer cer perplexity ppl fid nll bpc bpb".split()  # noqa: SIM905 - as above
)


class LoggedNames(NamedTuple):
    """The names of the metrics that modules log.

    Attributes:
        known: names that are known.
        parts: beginnings and ends of those that are partly known: `f"{stage}_loss"`.
        complete: whether there is no other name.
    """

    known: frozenset[str]
    parts: tuple[tuple[str, str], ...]
    complete: bool

    def may_have(self, name: str) -> bool:
        """Whether a metric of this name may be logged."""
        if not self.complete or name in self.known:
            return True
        return any(
            name.startswith(begin) and name.endswith(end) and len(name) >= len(begin) + len(end)
            for begin, end in self.parts
        )


def better(name: str) -> Literal["max", "min"] | None:
    """Whether more or less of a metric is better, by its name; None if the name does not say."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    more, less = any(word in _MORE for word in words), any(word in _LESS for word in words)
    if more == less:
        return None
    return "max" if more else "min"


def logged_names(modules: Iterable[Module]) -> LoggedNames:
    """The names of metrics that modules log with `self.log` and `self.log_dict` of Lightning."""
    names: set[str] = set()
    parts: list[tuple[str, str]] = []
    complete = True
    for module in modules:
        for call in calls_named(module, "log", "log_dict"):
            if not _is_of_lightning(call):
                continue
            found = _values(call)
            if found is None:
                complete = False
                continue
            for value in found:
                if value.certainty == "known" and value.texts:
                    for text in value.texts:
                        names.update((text, f"{text}_step", f"{text}_epoch"))
                elif value.is_unknown and (value.prefix or value.suffix):
                    parts.append((value.prefix, value.suffix))
                else:
                    complete = False
    return LoggedNames(frozenset(names), tuple(parts), complete)


def _is_of_lightning(call: Call) -> bool:
    """Whether a call may be LightningModule's own `log`, and not one of `math`, a logger or an experiment."""
    if call.name is not None or call.receiver is None:
        return False
    written = call.module.text(call.receiver)
    return not re.search(
        r"logger|wandb|run\b|mlflow|math|np|torch|writer|experiment|fabric|accelerator", written
    )


def _values(call: Call) -> list[Value] | None:
    """The names that a call logs; None if they are unknown."""
    if call.method == "log":
        written = call.expression("name", 0)
        return [evaluate(call.module, written)] if written is not None else None
    entries = call.argument("dictionary", 0).entries
    if entries is None or not entries.complete:
        return None
    return [Value("known", (str(key),)) for key in entries]
