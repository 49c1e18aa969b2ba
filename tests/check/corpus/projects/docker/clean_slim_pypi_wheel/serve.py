import torch
from fastapi import FastAPI
from pydantic import BaseModel
from transformers import AutoModelForSequenceClassification, AutoTokenizer

NAME = "BAAI/bge-reranker-base"
device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained(NAME)
model = AutoModelForSequenceClassification.from_pretrained(NAME, torch_dtype=torch.float16).to(device)
app = FastAPI()


class Query(BaseModel):
    question: str
    passages: list[str]


@app.post("/rerank")
@torch.inference_mode()
def rerank(query: Query):
    pairs = [[query.question, passage] for passage in query.passages]
    batch = tokenizer(pairs, padding=True, truncation=True, max_length=512, return_tensors="pt").to(device)
    return {"scores": model(**batch).logits.view(-1).float().tolist()}
