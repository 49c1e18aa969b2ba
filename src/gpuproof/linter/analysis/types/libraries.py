"""The types of what calls of libraries return, and the devices that they move to."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.known_types import (
    DATASET_MAKERS,
    ESTIMATORS,
    NO_MODULES,
    TENSOR_FACTORIES,
    TORCH_MODULES,
)
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.model import UNKNOWN_TYPE, Device, InferredType, TypeKind


def type_of_named(call: Call) -> InferredType:
    """The type of what a call of a library returns, by its qualified name."""
    name = call.name or ""
    last = name.rpartition(".")[2]
    if name.startswith("torch.optim.") and last[:1].isupper() and "lr_scheduler" not in name:
        return InferredType(TypeKind.OPTIMIZER)
    if name.endswith("data.DataLoader") or name == "DataLoader":
        return InferredType(TypeKind.LOADER)
    if name in TENSOR_FACTORIES:
        return InferredType(TypeKind.TENSOR, _device_of(call))
    if name.endswith(".convert_sync_batchnorm"):
        # The model that it gets, wherever that is.
        return InferredType(TypeKind.MODULE)
    if last == "generate_square_subsequent_mask":
        return InferredType(TypeKind.TENSOR, _device_of(call))
    if name.startswith(TORCH_MODULES) and not name.startswith(NO_MODULES) and "_Weights" not in name:
        return InferredType(TypeKind.MODULE, _device_of(call))
    if last == "from_pretrained" and "transformers." in name and ("Model" in name or "For" in name):
        # bitsandbytes places what it quantizes.
        placed = ("device_map", "quantization_config", "load_in_8bit", "load_in_4bit")
        moved = any(not call.argument(name).is_unset for name in placed)
        return InferredType(TypeKind.MODULE, None if moved else "cpu")
    if name.startswith("tensorflow.data.") and last.startswith(DATASET_MAKERS):
        return InferredType(TypeKind.TF_DATASET)
    if last in (
        "image_dataset_from_directory",
        "text_dataset_from_directory",
        "timeseries_dataset_from_array",
    ):
        return InferredType(TypeKind.TF_DATASET)
    if name.startswith("tensorflow.distribute.") and last.endswith("Strategy"):
        return InferredType(TypeKind.STRATEGY)
    if is_keras(name) and (
        last in ("Sequential", "Model", "load_model", "clone_model") or ".applications." in name
    ):
        return InferredType(TypeKind.KERAS_MODEL)
    if name.startswith("sagemaker."):
        return _of_sdk(last)
    if name in ("boto3.client", "boto3.resource"):
        return InferredType(TypeKind.CLIENT)
    return UNKNOWN_TYPE


def type_of_encoded(call: Call) -> InferredType:
    """The type of `tokenizer(texts, return_tensors="pt")`, whatever makes the tokenizer."""
    if call.name is not None or call.argument("return_tensors").text != "pt":
        return UNKNOWN_TYPE
    if call.method == "apply_chat_template":
        # With `return_dict`, which is on by default in transformers 5, a batch, which `to` moves in place.
        is_tensor = call.argument("return_dict").flag is False
        return InferredType(TypeKind.TENSOR if is_tensor else TypeKind.BATCH, "cpu")
    if call.method == "encode":
        return InferredType(TypeKind.TENSOR, "cpu")
    is_called = isinstance(call.node.func, (ast.Name, ast.Subscript)) or call.method in (
        "tokenizer",
        "processor",
    )
    return InferredType(TypeKind.BATCH, "cpu") if is_called else UNKNOWN_TYPE


def _of_sdk(last: str) -> InferredType:
    if last in ESTIMATORS:
        return InferredType(TypeKind.ESTIMATOR)
    if last.endswith("Predictor") and last[:1].isupper():
        return InferredType(TypeKind.PREDICTOR)
    if last.endswith("Model") and last[:1].isupper():
        return InferredType(TypeKind.SDK_MODEL)
    return UNKNOWN_TYPE


def is_module_class(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a class is a `torch.nn.Module`."""
    return any(
        base in ("torch.nn.Module", "torch.jit.ScriptModule")
        or base.startswith("torch.nn.")
        or base.endswith("LightningModule")
        for base in module.bases(owner)
    )


def is_part_class(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a class may be a module that is a part of another one: by its base, also one of another file, or its `forward`."""
    return any(base.endswith("Module") for base in module.bases(owner)) or any(
        isinstance(statement, ast.FunctionDef) and statement.name == "forward" for statement in owner.body
    )


def moves_inside(module: Module, owner: ast.ClassDef) -> bool:
    """Whether a model may move itself or its input in its methods, so that it may not be on the CPU."""
    calls = calls_within(calls_named(module, "to", "cuda", "device"), owner)
    return bool(calls) or any(
        node.arg in ("device", "device_map") and module.tree.is_within(node, owner)
        for node in module.nodes(ast.keyword)
    )


def moved_to(module: Module, call: Call, receiver: InferredType) -> Device | None:
    """The device after `x.to(...)` or `x.cuda()`."""
    if call.method == "cuda":
        return "gpu"
    target = call.expression("device", 0)
    if target is None:
        return receiver.device
    if (module.qualified(target) or "").startswith("torch.") and (
        module.qualified(target) or ""
    ) != "torch.device":
        # `.to(torch.float16)` changes the dtype, not the device.
        return receiver.device
    text = evaluate(module, target).text
    return "cpu" if text == "cpu" else "gpu"


def _device_of(call: Call) -> Device | None:
    device = call.argument("device")
    if device.is_absent:
        return "cpu"
    return "cpu" if device.text == "cpu" else None if device.is_unknown and call.is_open else "gpu"


def is_keras(name: str) -> bool:
    """Whether a qualified name is one of Keras."""
    return name.startswith(("keras.", "tensorflow.keras.", "tf_keras.", "tensorflow.python.keras."))
