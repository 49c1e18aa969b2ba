"""A text classifier as the Hugging Face containers serve it: a pair of model and tokenizer, `inputs` in, labels out."""

import json
import os

import torch
from torch import nn


class Tokenizer:
    def __init__(self, vocabulary):
        self.vocabulary = vocabulary

    def __call__(self, texts):
        rows = [[self.vocabulary.get(word, 0) for word in text.lower().split()] or [0] for text in texts]
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


class Classifier(nn.Module):
    def __init__(self, words, labels):
        super().__init__()
        self.embedding = nn.Embedding(words, labels, padding_idx=0)

    def forward(self, ids):
        return self.embedding(ids).sum(dim=1)


def model_fn(model_dir):
    with open(os.path.join(model_dir, "config.json")) as file:
        config = json.load(file)
    model = Classifier(len(config["vocabulary"]) + 1, len(config["labels"]))
    model.load_state_dict(torch.load(os.path.join(model_dir, "pytorch_model.bin"), map_location="cpu"))
    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    return model, Tokenizer(config["vocabulary"]), config["labels"]


def input_fn(body, content_type):
    inputs = json.loads(body)["inputs"]
    return [inputs] if isinstance(inputs, str) else inputs


def predict_fn(texts, model_and_tokenizer):
    model, tokenizer, labels = model_and_tokenizer
    device = next(model.parameters()).device
    with torch.no_grad():
        scores = torch.softmax(model(tokenizer(texts).to(device)), dim=-1)
    best = scores.max(dim=-1)
    return [
        {"label": labels[index], "score": round(score, 4)}
        for index, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
