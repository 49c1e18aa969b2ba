"""What the instance type promises against what is there, and what the account allows."""

from __future__ import annotations

from typing import Any

from tarmac.doctor.check import Check

CHECKS: tuple[Check[Any], ...] = ()
