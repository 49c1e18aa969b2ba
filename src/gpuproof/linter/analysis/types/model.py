"""Types that rules distinguish, and the devices of tensors and modules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Device = Literal["cpu", "gpu"]
"""`gpu` means moved to some device, which may be a CPU if the script finds no GPU."""


class TypeKind(StrEnum):
    """Types that rules distinguish."""

    TENSOR = "tensor"
    MODULE = "module"
    """A `torch.nn.Module`, possibly wrapped in DDP."""
    OPTIMIZER = "optimizer"
    LOADER = "loader"
    """A `torch.utils.data.DataLoader`."""
    BATCH = "batch"
    """A batch of a loader: a list, tuple or mapping of tensors."""
    TF_DATASET = "tf_dataset"
    KERAS_MODEL = "keras_model"
    STRATEGY = "strategy"
    """A `tf.distribute` strategy."""
    ESTIMATOR = "estimator"
    SDK_MODEL = "sdk_model"
    """A model of the SageMaker SDK that can be deployed."""
    PREDICTOR = "predictor"
    CLIENT = "client"
    """A boto3 client or resource."""


@dataclass(frozen=True)
class InferredType:
    """The inferred type of an expression.

    Args:
        kind: the type; None if unknown.
        device: for tensors, batches and modules, the device that they are certainly on; None if unknown.
    """

    kind: TypeKind | None = None
    device: Device | None = None


UNKNOWN_TYPE = InferredType()


def common_type(options: list[InferredType]) -> InferredType:
    """The type that all options have in common."""
    first = options[0]
    if any(option.kind is not first.kind for option in options):
        return UNKNOWN_TYPE
    return first if all(option.device == first.device for option in options) else InferredType(first.kind)


def type_of_operands(left: InferredType, right: InferredType) -> InferredType:
    """The type of `left * right`, whose tensors are in one place."""
    if left.kind is not TypeKind.TENSOR or right.kind is not TypeKind.TENSOR:
        return next((item for item in (left, right) if item.kind is TypeKind.TENSOR), UNKNOWN_TYPE)
    return left if left.device == right.device else InferredType(TypeKind.TENSOR)
