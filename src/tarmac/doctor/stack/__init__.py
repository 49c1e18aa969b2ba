"""From the PCI bus to a kernel's right answer: the checks of which each layer stands on the one below.

One file a check: a `read` that touches the machine and a pure `evaluate`.
"""

from __future__ import annotations

from typing import Any

from tarmac.doctor.check import Check

CHECKS: tuple[Check[Any], ...] = ()
"""In the order in which they are asked and shown."""
