import os

import torch
from fastapi import FastAPI
from pydantic import BaseModel

from app.encoder import load_encoder

device = torch.device("cuda")
encoder, vocab = load_encoder(os.environ["MODEL_FOLDER"], device)
api = FastAPI()


class Request(BaseModel):
    texts: list[str]


def tokenize(texts, length=128):
    out = torch.zeros(len(texts), length, dtype=torch.long)
    for row, text in zip(out, texts):
        ids = [vocab.get(word, 1) for word in text.lower().split()][:length]
        row[: len(ids)] = torch.tensor(ids)
    return out


@torch.inference_mode()
def embed(texts):
    encoder, _ = load_encoder(os.environ["MODEL_FOLDER"], device)
    tokens = tokenize(texts).to(device)
    vectors = encoder(tokens)
    return vectors.cpu().tolist()


@api.get("/ping")
def ping():
    return {"status": "healthy"}


@api.post("/invocations")
def invocations(request: Request):
    return {"vectors": embed(request.texts)}
