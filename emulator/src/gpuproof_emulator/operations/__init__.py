"""SageMaker's operations: one function each, from a validated request to the response document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuproof_emulator.operations import (
    endpoints,
    notebook_lifecycle_configs,
    notebooks,
    pipelines,
    processing,
    search,
    studio,
    tags,
    training,
    transform,
)
from gpuproof_emulator.operations.call import OperationCall

Operation = Callable[[OperationCall], dict[str, Any]]

OPERATIONS: dict[str, Operation] = {
    **training.OPERATIONS,
    **processing.OPERATIONS,
    **transform.OPERATIONS,
    **endpoints.OPERATIONS,
    **notebooks.OPERATIONS,
    **notebook_lifecycle_configs.OPERATIONS,
    **pipelines.OPERATIONS,
    **tags.OPERATIONS,
    **search.OPERATIONS,
    **studio.OPERATIONS,
}
"""Every SageMaker operation that the emulator supports, by name."""
