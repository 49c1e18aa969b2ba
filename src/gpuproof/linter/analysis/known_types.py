"""Names in torch, TensorFlow and the SageMaker SDK from which the type of a call's result follows."""

from __future__ import annotations

MOVERS = frozenset({"to", "cuda"})
TENSOR_METHODS = frozenset(
    [
        "float",
        "half",
        "double",
        "long",
        "int",
        "bfloat16",
        "view",
        "reshape",
        "permute",
        "transpose",
        "squeeze",
        "unsqueeze",
        "flatten",
        "contiguous",
        "detach",
        "clone",
        "sum",
        "mean",
        "max",
        "min",
        "t",
        "type",
        "expand",
        "softmax",
        "argmax",
        "sigmoid",
        "relu",
        "size_as",
        "repeat",
        "chunk",
        "requires_grad_",
        "pin_memory",
    ]
)
TENSOR_FACTORIES = frozenset(
    f"torch.{name}"
    for name in (
        "tensor",
        "zeros",
        "ones",
        "rand",
        "randn",
        "randint",
        "empty",
        "full",
        "arange",
        "linspace",
        "eye",
        "from_numpy",
        "as_tensor",
        "stack",
        "cat",
        "FloatTensor",
        "LongTensor",
        "Tensor",
        "zeros_like",
        "ones_like",
        "rand_like",
        "randn_like",
        "normal",
        "randperm",
        "tril",
        "triu",
        "full_like",
    )
)
WRAPPERS = (
    "DistributedDataParallel",
    "DataParallel",
    "FullyShardedDataParallel",
    "torch.compile",
    "compile_model",
    "convert_sync_batchnorm",
)
TORCH_MODULES = (
    "torch.nn.",
    "torchvision.models.",
    "torch.hub.load",
    "timm.create_model",
    "segmentation_models",
)
NO_MODULES = ("torch.nn.functional.", "torch.nn.init.", "torch.nn.utils.", "torch.nn.Parameter")
DATASET_MAKERS = (
    "from_tensor_slices",
    "from_generator",
    "TFRecordDataset",
    "TextLineDataset",
    "list_files",
    "range",
)
DATASET_METHODS = frozenset(
    [
        "map",
        "batch",
        "shuffle",
        "repeat",
        "prefetch",
        "cache",
        "filter",
        "take",
        "skip",
        "interleave",
        "unbatch",
        "padded_batch",
        "with_options",
        "concatenate",
        "enumerate",
        "shard",
        "apply",
        "flat_map",
        "zip",
    ]
)
ESTIMATORS = frozenset(
    {"PyTorch", "TensorFlow", "HuggingFace", "SKLearn", "XGBoost", "MXNet", "Estimator", "RLEstimator"}
)
