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
