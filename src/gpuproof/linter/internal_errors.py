"""Bugs of GPUproof that occur while it checks: each is reported, and costs one rule on one file only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

T = TypeVar("T")

REPORT = "This is a bug of GPUproof: please report it. The other findings are complete."


@dataclass(frozen=True)
class InternalError:
    """An exception in GPUproof itself.

    Args:
        file: the file that was checked, as the user wrote it; empty for the project as a whole.
        task: what failed, as in `reading the file`; empty for rules.
    """

    file: str
    task: str
    rules: tuple[str, ...]
    error: str
    trace: str = field(default="", repr=False)

    @property
    def message(self) -> str:
        """What failed, on one line."""
        if not self.rules:
            return f"{self.task} failed: {self.error}"
        noun = "rule" if len(self.rules) == 1 else "rules"
        return f"{noun} {', '.join(self.rules)} failed: {self.error}"

    @property
    def remedy(self) -> str:
        """What to type to check without what failed."""
        if not self.rules:
            return REPORT
        return f"{REPORT} To skip what failed: --ignore {','.join(self.rules)}"


class ErrorLog:
    """Collects the exceptions of one check."""

    def __init__(self) -> None:
        self.errors: list[InternalError] = []

    def add(self, error: Exception, file: str, *, rule: str | None = None, task: str = "") -> None:
        """Record an exception."""
        import traceback  # only where there is a bug

        text = " ".join(f"{type(error).__name__}: {error}".split())
        # A RecursionError has a thousand frames, of which the last ones say where it was.
        trace = "".join(traceback.format_exception(error, limit=-20))
        self.errors.append(InternalError(file, task, (rule,) if rule else (), text[:500], trace))

    def guard(
        self, results: Callable[[], Iterable[T]], file: str, *, rule: str | None = None, task: str = ""
    ) -> Iterator[T]:
        """The results of a function up to an exception, which is recorded."""
        try:
            yield from results()
        except Exception as error:  # noqa: BLE001  # a bug in one rule must not lose the findings of the others
            self.add(error, file, rule=rule, task=task)


def merged(errors: Iterable[InternalError]) -> list[InternalError]:
    """The errors sorted by file; rules that fail on one file with the same exception are one error."""
    groups: dict[tuple[str, str, str], InternalError] = {}
    for error in errors:
        key = (error.file, error.task, error.error)
        known = groups.get(key)
        codes = sorted({*(known.rules if known else ()), *error.rules})
        groups[key] = replace(known or error, rules=tuple(codes))
    return [groups[key] for key in sorted(groups)]
