"""What the instance type promises against what is there, and what the account allows."""

from __future__ import annotations

from typing import Any

from gpuproof.doctor.check import Check
from gpuproof.doctor.checks.cloud import account, instance_spec, maintenance_events

CHECKS: tuple[Check[Any], ...] = (instance_spec.CHECK, account.CHECK, maintenance_events.CHECK)
"""Every check of the cloud."""
