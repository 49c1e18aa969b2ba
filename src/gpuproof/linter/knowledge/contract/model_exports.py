"""The calls of a script that write or load a model as TorchScript or ONNX, which need no code of the model."""

from __future__ import annotations

import re

from gpuproof.linter.analysis.call import all_calls, calls_named, origin_call
from gpuproof.linter.analysis.module import Module

_TORCHSCRIPT = re.compile(r"^torch\.jit\.(save|load)$|(^|\.)to_torchscript$")
_MAKES = re.compile(
    r"^torch\.jit\.(script|trace|trace_module|freeze|optimize_for_inference)$|(^|\.)to_torchscript$"
)
_ONNX = re.compile(
    r"^torch\.onnx\.(export|dynamo_export)$|^onnx\.(save|load)(_model)?$|^onnxruntime\.InferenceSession$"
    r"|^(optimum\.onnxruntime|tf2onnx|skl2onnx|onnxmltools)\.|(^|\.)to_onnx$"
)


def handles_torchscript(module: Module) -> bool:
    """Whether a module writes or loads a TorchScript file; a module that only scripts or traces a model does not."""
    names = [call.name or call.method for call in all_calls(module)]
    if any(map(_TORCHSCRIPT.search, names)):
        return True
    if not any(map(_MAKES.search, names)):
        return False
    makers = [origin_call(module, call.receiver) for call in calls_named(module, "save") if call.name is None]
    # What an unknown call or a parameter stands for may be the scripted model.
    return any(made is None or made.name is None or _MAKES.search(made.name) for made in makers)


def handles_exports(module: Module) -> bool:
    """Whether a module writes or loads a model as TorchScript or ONNX."""
    return handles_torchscript(module) or any(
        _ONNX.search(call.name or call.method) for call in all_calls(module)
    )
