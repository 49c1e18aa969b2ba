"""The codes of `gpuproof doctor`: what each means, for `gpuproof rule D101`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gpuproof.util.csv_table import read_package_rows

LAYERS = {
    "1": "hardware",
    "2": "driver",
    "3": "libraries",
    "4": "framework",
    "5": "compute",
    "6": "environment",
    "7": "cloud",
    "8": "benchmark",
}
"""Layers by the first digit of their codes."""


class DoctorCode(NamedTuple):
    """One code.

    Attributes:
        problem: in a few words.
        meaning: in a sentence.
    """

    code: str
    problem: str
    meaning: str

    @property
    def layer(self) -> str:
        """The layer whose checks report it."""
        return LAYERS[self.code[1]]


@cache
def doctor_codes() -> dict[str, DoctorCode]:
    """All codes."""
    return {row["code"]: DoctorCode(**row) for row in read_package_rows("gpuproof.doctor", "data/codes.csv")}
