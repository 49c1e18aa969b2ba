"""The Python interface: `gpuproof.run` (`run.py`), and what it shows in scripts and notebooks (`output.py`)."""

from __future__ import annotations

from gpuproof.backends.api.run import run

__all__ = ["run"]
