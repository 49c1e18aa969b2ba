"""What SageMaker is asked: one function for each operation, from a checked request to an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuproof.emulator.operations import endpoints, processing, search, tags, training
from gpuproof.emulator.operations.call import Call

Operation = Callable[[Call], dict[str, Any]]

OPERATIONS: dict[str, Operation] = {
    **training.OPERATIONS,
    **processing.OPERATIONS,
    **endpoints.OPERATIONS,
    **tags.OPERATIONS,
    **search.OPERATIONS,
}
"""Every operation that the emulator offers, by its name."""
