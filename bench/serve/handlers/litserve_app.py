"""LitServe, one request at a time or in batches."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import os

import inference
import litserve
import torch


class Api(litserve.LitAPI):
    def setup(self, device):  # noqa: ARG002
        self.model = inference.model_fn(os.environ["BENCH_MODEL_DIR"])

    def decode_request(self, request):
        return torch.tensor(request, dtype=torch.float32)

    def predict(self, data):
        return inference.predict_fn(data, self.model)

    def encode_response(self, output):
        return output.tolist()


class Batching(Api):
    def batch(self, inputs):
        return torch.cat(inputs)

    def unbatch(self, output):
        return output.split(1)


if __name__ == "__main__":
    batching = os.environ.get("BENCH_BATCH") == "1"
    # A time-out of 0 makes its worker spin on an idle queue; 5 ms is what its documentation shows.
    options = {"max_batch_size": 32, "batch_timeout": 0.005} if batching else {}
    api = (Batching if batching else Api)(api_path="/invocations", **options)
    server = litserve.LitServer(api, accelerator="cpu", timeout=120)
    server.run(
        host="127.0.0.1",
        port=int(os.environ["BENCH_PORT"]),
        num_api_servers=1,
        generate_client_file=False,
    )
