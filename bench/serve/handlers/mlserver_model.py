"""MLServer: the V2 inference protocol, with its adaptive batching."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import os

import inference
import torch
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Model(MLModel):
    async def load(self) -> bool:
        self.network = inference.model_fn(os.environ["BENCH_MODEL_DIR"])
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        data = torch.from_numpy(NumpyCodec.decode_input(payload.inputs[0]))
        prediction = inference.predict_fn(data, self.network).numpy()
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("output", prediction)]
        )
