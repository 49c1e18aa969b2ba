"""`tarmac doctor --full`: what each GPU really does a second, against its data sheet."""

from __future__ import annotations

from typing import Any

from tarmac.doctor.check import Check
from tarmac.doctor.measure import rates

CHECKS: tuple[Check[Any], ...] = (rates.CHECK,)
"""What `--full` adds."""
