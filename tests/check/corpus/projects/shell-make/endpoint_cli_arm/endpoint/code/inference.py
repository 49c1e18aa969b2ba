import json
import os

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def model_fn(model_dir):
    folder = os.path.join(model_dir, "weights")
    model = AutoModelForSequenceClassification.from_pretrained(folder).to(device).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def input_fn(body, content_type):
    if content_type != "application/json":
        raise ValueError(content_type)
    return json.loads(body)["texts"]


def predict_fn(texts, loaded):
    model, tokenizer = loaded
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(device)
    with torch.no_grad():
        return model(**batch).logits.softmax(dim=1)[:, 1]


def output_fn(scores, accept):
    return json.dumps({"scores": scores.cpu().tolist()})
