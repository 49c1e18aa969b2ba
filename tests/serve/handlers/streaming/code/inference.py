"""Tokens one by one, as language models answer."""

import json


def model_fn(model_dir):
    return ["The", " runway", " is", " clear"]


def input_fn(body, content_type):
    return json.loads(body)


def predict_fn(data, model):
    yield from model[: data["max_new_tokens"]]


def output_fn(prediction, accept):
    def events():
        for token in prediction:
            yield f"data: {json.dumps({'token': token})}\n\n"
        yield "data: [DONE]\n\n"

    return events(), "text/event-stream"
