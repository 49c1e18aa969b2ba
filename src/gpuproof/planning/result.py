"""What `gpuproof.plan` returns: the plan, with the forms in which people and programs read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from gpuproof.backends.display import Printed
from gpuproof.planning.document import to_json
from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.text import blocks, format_plan
from gpuproof.terminal.table import Block
from gpuproof.util.humanize import format_usd


@dataclass(frozen=True, repr=False)
class PlanResult(Printed, ScriptPlan):
    """The plan of a script or a model; `print(plan)` shows it as the command does, and a notebook, too.

    Args:
        script: the user's name of it.
    """

    script: str = "script"

    @classmethod
    def of(cls, plan: ScriptPlan, script: str) -> PlanResult:
        """The plan of a script with a name."""
        return cls(**{item.name: getattr(plan, item.name) for item in fields(ScriptPlan)}, script=script)

    @property
    def title(self) -> str:
        """The script, and where to run it."""
        found = self.recommendation
        if found is None:
            return f"{self.script}: no recommendation"
        usd = found.offer.priced.price.usd_per_hour
        return f"{self.script}: {found.instance_type} recommended, {format_usd(usd)} an hour"

    def to_json(self) -> dict[str, Any]:
        """The JSON form, as of `gpuproof plan --format json`."""
        return to_json(self, self.script)

    def __str__(self) -> str:
        return format_plan(self, self.script)

    def blocks(self) -> Iterable[Block]:
        """The same as paragraphs and tables."""
        return blocks(self, self.script)
