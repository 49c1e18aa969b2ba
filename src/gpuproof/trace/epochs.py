"""How many passes over the data a script makes, by the arguments that it parses."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from gpuproof.trace.document import Note, Trace, TraceFailure

_NAMES = ("epochs", "num_train_epochs", "num_epochs", "max_epochs", "n_epochs", "nb_epochs", "total_epochs")


@dataclass
class Epochs:
    """What the script's parsers have found so far.

    Args:
        name: of the argument.
        count: its value, or its default.
    """

    name: str = ""
    count: int | None = None

    def watch(self) -> None:
        """Look at what every `argparse` parser returns from now on."""
        original = argparse.ArgumentParser.parse_known_args

        def parse(self_: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(self_, *args, **kwargs)
            self._look(found[0])
            return found

        argparse.ArgumentParser.parse_known_args = parse  # type: ignore[method-assign,assignment]

    def _look(self, namespace: Any) -> None:
        for name in _NAMES:
            value = getattr(namespace, name, None)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1:
                self.name, self.count = name, round(value)
                return

    def added_to(self, trace: Trace | TraceFailure) -> Trace | TraceFailure:
        """The trace of a training script, with this number if it has none; a failure as it is."""
        if (
            self.count is None
            or isinstance(trace, TraceFailure)
            or trace.epochs is not None
            or trace.mode != "training"
        ):
            return trace
        text = (
            f"The script makes as many passes over the data as its argument {self.name} says: {self.count}."
        )
        return replace(trace, epochs=self.count, assumptions=[*trace.assumptions, Note("epochs", text)])
