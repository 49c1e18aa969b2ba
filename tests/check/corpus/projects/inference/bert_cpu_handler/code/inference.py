import json

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

LABELS = ["negative", "neutral", "positive"]


def model_fn(model_dir):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForSequenceClassification.from_pretrained(model_dir)
    model.eval()
    return model, tokenizer


def input_fn(body, content_type):
    if content_type == "application/json":
        return json.loads(body)["inputs"]
    raise ValueError(f"content type {content_type} is not supported")


def predict_fn(texts, bundle):
    model, tokenizer = bundle
    encoded = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    outputs = model(**encoded)
    scores = outputs.logits.softmax(-1)
    best = scores.max(-1)
    return [{"label": LABELS[i], "score": s} for i, s in zip(best.indices.tolist(), best.values.tolist())]


def output_fn(predictions, accept):
    return json.dumps(predictions), "application/json"
