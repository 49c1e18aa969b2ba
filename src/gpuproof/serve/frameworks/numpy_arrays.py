"""Models of other libraries such as scikit-learn: numpy arrays as input and output; requires a `model_fn`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import error_position, registry
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks.base import Framework
from gpuproof.serve.interface import Request

_NOT_NUMERIC = re.compile(
    r"could not convert string to float|float\(\) argument must be|unsupported operand type|too large to convert"
    r"|inhomogeneous shape|setting an array element|maximum number of dimension|arrays of bytes/strings"
)
"""Error messages of Python, numpy and scikit-learn for values that are not numbers. A handler's own code may raise them
for other reasons, so they count only if the request's data is in fact not numeric."""


class NumPy(Framework):
    """Defaults of the base toolkit (sagemaker_inference/default_inference_handler.py)."""

    name = "none"

    def load(self, folder: Path) -> Any:
        raise LoadError(
            f"{folder} contains no model that can be served without a handler.",
            remedy="Add code/inference.py with a model_fn.",
        )

    def read(self, request: Request, model: Any, own_predict: bool) -> Any:
        del model, own_predict
        return registry.read_body(request.body, media_types.without_charset(request.content_type))

    def predict(self, data: Any, model: Any) -> Any:
        """Call the model's `predict`, as of scikit-learn, XGBoost and LightGBM estimators, or else the model itself."""
        predict = getattr(model, "predict", None)
        if callable(predict):
            try:
                return predict(data)
            except (TypeError, ValueError, OverflowError) as error:
                refusal = _not_numbers_error(data, error)
                if refusal is None:
                    raise
                raise refusal from error
        if callable(model):
            return model(data)
        raise TypeError(
            f"model_fn returned a {type(model).__name__}, which is not callable and has no predict(): "
            "write a predict_fn."
        )

    def write(self, prediction: Any, media_type: str) -> bytes:
        return registry.write_body(prediction, media_type)


def _not_numbers_error(data: Any, error: Exception) -> RequestError | None:
    """422 with the position of a value that is not a number, if the model failed because of it."""
    if not _NOT_NUMERIC.search(str(error)):
        return None
    if isinstance(data, (list, str, dict)) or data is None:
        found = error_position.first_non_number(data)
    else:
        # In a CSV body with a field that is not a number, all fields are texts.
        found = "texts" if getattr(getattr(data, "dtype", None), "kind", "") == "U" else ""
    return (
        RequestError(422, f"The model rejects the data: expected numbers, given {found}.") if found else None
    )
