"""`async def` functions, and an async generator."""

import asyncio
import json


async def model_fn(model_dir):
    await asyncio.sleep(0)
    return 3


async def predict_fn(data, model):
    values = await asyncio.gather(*(asyncio.sleep(0, value * model) for value in data.tolist()))
    return list(values)


async def output_fn(prediction, accept):
    if accept == "application/jsonlines":
        return pieces(prediction), accept
    return json.dumps(prediction)


def pieces(prediction):
    for value in prediction:
        yield json.dumps(value) + "\n"
