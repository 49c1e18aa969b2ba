"""The carbon dioxide of a run's GPUs: their energy, times the average of the region's grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuproof.catalogue import Catalogue
from gpuproof.util.humanize import format_energy

if TYPE_CHECKING:
    from gpuproof.agent.verdict import Verdict
    from gpuproof.catalogue.model import GridCarbon

_LEAST_JOULES = 36_000.0
"""10 Wh: less is not worth a line."""
_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Carbon:
    """What the GPUs' energy caused, by the average of the grid in a year; what AWS buys for its own data centers is not known.

    Args:
        joules: of the GPUs alone, without the rest of their machines and the data center.
    """

    joules: float
    grid: GridCarbon

    @property
    def grams(self) -> float:
        """Grams of CO2 equivalent."""
        return self.joules / _JOULES_PER_KWH * self.grid.g_per_kwh

    @property
    def is_shown(self) -> bool:
        """Whether it is worth a line."""
        return self.joules >= _LEAST_JOULES

    @property
    def text(self) -> str:
        """The result for people."""
        mass = f"{self.grams:.0f} g" if self.grams < 999.5 else f"{self.grams / 1000:,.3g} kg"
        grid = self.grid
        return (
            f"about {mass} CO2e: {format_energy(self.joules)} by the GPUs at {grid.g_per_kwh:.0f} g/kWh, "
            f"the average of {grid.grid} in {grid.year}"
        )

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        grid = self.grid
        return {
            "grams_co2e": round(self.grams, 3),
            "g_per_kwh": grid.g_per_kwh,
            "grid": grid.grid,
            "year": grid.year,
            "source": grid.source,
            "as_of": grid.as_of,
        }


def carbon(verdict: Verdict, region: str | None) -> Carbon | None:
    """The carbon dioxide of a run; `None` if its energy, or the region's grid, is unknown."""
    if verdict.energy is None or region is None:
        return None
    grid = Catalogue.load().tables.grid_carbon.get(region)
    return None if grid is None else Carbon(verdict.energy.joules, grid)
