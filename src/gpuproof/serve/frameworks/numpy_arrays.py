"""Neither PyTorch nor TensorFlow: numpy arrays in and out, and a `model_fn` is the handler's business."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import error_position, registry
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks.base import Framework
from gpuproof.serve.model.interface import Request

_NO_NUMBERS = re.compile(
    r"could not convert string to float|float\(\) argument must be|unsupported operand type|too large to convert"
    r"|inhomogeneous shape|setting an array element|maximum number of dimension|arrays of bytes/strings"
)
"""What Python, numpy and scikit-learn say of values that are no numbers. A handler's own code may say so of other things:
it counts for the request's data alone, where these are no numbers."""


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
        return registry.read_body(request.body, media_types.without_charset(request.content_type))

    def predict(self, data: Any, model: Any) -> Any:
        """What scikit-learn's, XGBoost's and LightGBM's estimators call `predict`, or the model called."""
        predict = getattr(model, "predict", None)
        if callable(predict):
            try:
                return predict(data)
            except (TypeError, ValueError, OverflowError) as error:
                refusal = _misfit(data, error)
                if refusal is None:
                    raise
                raise refusal from error
        if callable(model):
            return model(data)
        raise TypeError(
            f"model_fn gives a {type(model).__name__}, which can neither be called nor has predict(): "
            "write a predict_fn."
        )

    def write(self, prediction: Any, kind: str) -> bytes:
        return registry.write_body(prediction, kind)


def _misfit(data: Any, error: Exception) -> RequestError | None:
    """422 where the model failed at what is no number, with its place."""
    if not _NO_NUMBERS.search(str(error)):
        return None
    if isinstance(data, (list, str, dict)) or data is None:
        held = error_position.stray(data)
    else:
        # A CSV body with a field that is no number: its numbers are texts too.
        held = "texts" if getattr(getattr(data, "dtype", None), "kind", "") == "U" else ""
    return RequestError(422, f"The model refuses the data: expected numbers, given {held}.") if held else None
