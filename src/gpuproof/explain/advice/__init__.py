"""Makes a cause concrete: one function a kind of fact, each pure over what the log said and what is known beside it.

A row of the error texts names the functions that it wants (`needs`); each gives what is so *here*, what to do instead
of the general remedy, or nothing.
"""

from __future__ import annotations

from gpuproof.explain.advice import aws, gpu, host
from gpuproof.explain.advice.form import Advice, Advise

ADVICE: dict[str, Advise] = {**gpu.ADVICE, **aws.ADVICE, **host.ADVICE}
"""Every kind, by name."""

__all__ = ["ADVICE", "Advice", "Advise"]
