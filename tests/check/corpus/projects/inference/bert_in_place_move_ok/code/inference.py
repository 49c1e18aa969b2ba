import json

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

LABELS = ["negative", "neutral", "positive"]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForSequenceClassification.from_pretrained(model_dir)
    model.to(DEVICE).eval()
    return model, tokenizer


def input_fn(body, content_type):
    if content_type == "application/json":
        return json.loads(body)["inputs"]
    raise ValueError(f"content type {content_type} is not supported")


def predict_fn(texts, bundle):
    model, tokenizer = bundle
    encoded = tokenizer(texts, return_tensors="pt", padding=True, truncation=True)
    encoded.to(DEVICE)  # a BatchEncoding moves in place
    with torch.inference_mode():
        outputs = model(**encoded)
    scores = outputs.logits.softmax(-1)
    best = scores.max(-1)
    return [{"label": LABELS[i], "score": s} for i, s in zip(best.indices.tolist(), best.values.tolist())]


def output_fn(predictions, accept):
    return json.dumps(predictions), "application/json"
