"""What a step of the acceptance run is, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuproof.catalogue import Catalogue

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """What a command has answered.

    Args:
        code: the exit code.
        document: what `--format json` printed; empty if nothing.
        errors: what it printed for people; steps look only for lines of their own scripts in it.
        machine: `machine.json` of the model that `gpuproof pull` has unpacked; empty if there is none.
        seconds: how long it took.
        earlier: documents of earlier steps, by name.
    """

    code: int
    document: Document = field(default_factory=dict)
    errors: str = ""
    machine: Document = field(default_factory=dict)
    seconds: float = 0.0
    earlier: Mapping[str, Document] = field(default_factory=dict)


class Claim(NamedTuple):
    """What must be true of a result.

    Attributes:
        text: for the user.
        holds: raises KeyError, IndexError or TypeError, or returns False, if it is not.
    """

    text: str
    holds: Callable[[Result], bool]


class Charge(NamedTuple):
    """Minutes that an instance type is billed."""

    instance: str
    minutes: float


@dataclass(frozen=True)
class Step:
    """One command, or one that is repeated until its claims hold.

    Args:
        name: selects it on the command line.
        words: the command's arguments; `{NAME}` is the id of the run that the step NAME started, or a limit of the target.
        proves: what it shows, for the user.
        minutes: how long it takes on AWS.
        code: the expected exit code.
        claims: what must be true of the result.
        reads: facts and their values in the result; None if it has none.
        confirms: facts that are confirmed by the claims.
        charges: what is billed.
        group: steps with the same group share a resource; if it was deleted, all of them are repeated.
        within: repeat the command, at most for so many minutes, until the claims hold.
        due_in: minutes after which a schedule in AWS is due for which it waits.
        account_only: why the emulator cannot do it; empty if it can.
        faults: injected into the emulator, for what an account refuses by itself.
    """

    name: str
    words: str
    proves: str
    minutes: float
    code: int = 0
    claims: tuple[Claim, ...] = ()
    reads: Mapping[str, Callable[[Result], Any]] = field(default_factory=dict)
    confirms: tuple[str, ...] = ()
    charges: tuple[Charge, ...] = ()
    group: str = ""
    within: float = 0.0
    due_in: float = 0.0
    account_only: str = ""
    faults: tuple[Mapping[str, str], ...] = ()

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that it confirms."""
        return (*self.confirms, *self.reads)

    def usd(self, region: str) -> float:
        """What it costs at most, by list prices."""
        return sum(_usd_per_hour(charge.instance, region) * charge.minutes / 60 for charge in self.charges)


def _usd_per_hour(instance: str, region: str) -> float:
    price = Catalogue.load().price(instance, region)
    if price is None:
        raise ValueError(f"the catalogue has no price of {instance} in {region}: choose another region")
    return price.usd_per_hour
