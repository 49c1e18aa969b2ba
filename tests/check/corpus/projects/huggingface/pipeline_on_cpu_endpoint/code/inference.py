"""Handler: a JSON list of texts in, a list of labels out."""

import json

from transformers import pipeline


def model_fn(model_dir):
    return pipeline("text-classification", model=model_dir, tokenizer=model_dir, device=-1)


def input_fn(body, content_type):
    if content_type != "application/json":
        raise ValueError(f"unsupported content type {content_type}")
    return json.loads(body)


def predict_fn(texts, classify):
    results = []
    for text in texts:
        results.append(classify(text)[0])
    return results


def output_fn(results, accept):
    return json.dumps(results)
