"""FastAPI on uvicorn, the way its documentation writes it: a plain function, run in the thread pool."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import os

import bodies
import inference
import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

app = FastAPI()
model = inference.model_fn(os.environ["BENCH_MODEL_DIR"])


@app.get("/ping")
def ping() -> dict:
    return {}


@app.post("/invocations")
def invocations(payload: list[list[float]]) -> list:
    return inference.predict_fn(torch.tensor(payload), model).tolist()


@app.post("/images")
async def images(request: Request) -> list:
    # Applications have no type for four dimensions.
    data = bodies.read(await request.json(), "application/json")
    return (await run_in_threadpool(inference.predict_fn, data, model)).tolist()


@app.post("/npy")
async def npy(request: Request) -> Response:
    data = bodies.read(await request.body(), "application/x-npy")
    prediction = await run_in_threadpool(inference.predict_fn, data, model)
    return Response(bodies.write(prediction, "application/x-npy"), media_type="application/x-npy")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["BENCH_PORT"]))
