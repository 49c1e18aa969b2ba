"""The types of expressions: tensors, modules, data loaders, Keras models, objects of the SageMaker SDK, clients."""

from gpuproof.linter.analysis.types.infer import type_of
from gpuproof.linter.analysis.types.model import UNKNOWN_TYPE, InferredType, TypeKind

__all__ = ["UNKNOWN_TYPE", "InferredType", "TypeKind", "type_of"]
