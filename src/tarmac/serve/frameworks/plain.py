"""Neither PyTorch nor TensorFlow: numpy arrays in and out, and a `model_fn` is the handler's business."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarmac.serve import media
from tarmac.serve.codecs import bodies
from tarmac.serve.errors import LoadError
from tarmac.serve.frameworks.framework import Framework
from tarmac.serve.handler import Request


class Plain(Framework):
    """The base toolkit's defaults (sagemaker_inference/default_inference_handler.py)."""

    name = "none"

    def load(self, folder: Path) -> Any:
        raise LoadError(
            f"{folder} holds no model that can be served without a handler.",
            remedy="Put an inference.py with a model_fn into its code/ folder.",
        )

    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        del model, own_predict
        return bodies.read_body(request.body, media.without_charset(request.content_type))

    def predict(self, data: Any, model: Any) -> Any:
        """What scikit-learn's, XGBoost's and LightGBM's estimators call `predict`, or the model called."""
        predict = getattr(model, "predict", None)
        if callable(predict):
            return predict(data)
        if callable(model):
            return model(data)
        raise TypeError(
            f"model_fn gives a {type(model).__name__}, which can neither be called nor has predict(): "
            "write a predict_fn."
        )

    def write(self, prediction: Any, kind: str) -> bytes:
        return bodies.write_body(prediction, kind)
