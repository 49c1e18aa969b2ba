"""What the instance type promises against what is there, and what the account allows."""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.surroundings.cloud import account, notices, promise

CHECKS: tuple[Check[Any], ...] = (promise.CHECK, account.CHECK, notices.CHECK)
"""Every check of the cloud."""
