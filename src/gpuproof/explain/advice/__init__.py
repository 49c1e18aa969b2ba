"""Adds details about the machine, instance type and account to a known error: one pure function per kind of fact.

The `needs` column of the known errors names the functions to call. Each returns what applies to this machine and,
optionally, a more specific remedy, or nothing.
"""

from __future__ import annotations

from gpuproof.explain.advice import aws, gpu, host, job, packages
from gpuproof.explain.explanation import AdviceFunction

ADVICE: dict[str, AdviceFunction] = {
    **gpu.ADVICE,
    **aws.ADVICE,
    **host.ADVICE,
    **job.ADVICE,
    **packages.ADVICE,
}
"""All advice functions by name."""

__all__ = ["ADVICE"]
