"""The handler of multi-model-server and of TorchServe: a list of requests in, a list of answers out."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import os

import bodies
import inference
import torch

_model = None


def handle(data, context):
    global _model
    if _model is None:
        _model = inference.model_fn(os.environ["BENCH_MODEL_DIR"])
    if data is None:
        return None
    kinds = [_content_type(context, index) for index in range(len(data))]
    tensors = [bodies.read(item.get("body"), kind) for item, kind in zip(data, kinds, strict=True)]
    sizes = [len(tensor) for tensor in tensors]
    predictions = inference.predict_fn(torch.cat(tensors), _model).split(sizes)
    return [bodies.write(prediction, kind) for prediction, kind in zip(predictions, kinds, strict=True)]


def _content_type(context, index):
    return context.get_request_header(index, "Content-Type") or "application/json"
