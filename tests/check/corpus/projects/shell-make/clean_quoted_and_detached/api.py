import os

import psycopg
import torch
from fastapi import FastAPI
from sentence_transformers import SentenceTransformer

device = "cuda" if torch.cuda.is_available() else "cpu"
model = SentenceTransformer("intfloat/multilingual-e5-small", device=device)
app = FastAPI()


@app.get("/search")
def search(query: str, limit: int = 10):
    vector = model.encode(f"query: {query}", normalize_embeddings=True).tolist()
    with psycopg.connect(os.environ.get("DATABASE", "host=postgres user=postgres")) as connection:
        rows = connection.execute(
            "SELECT id, title FROM pages ORDER BY embedding <#> %s::vector LIMIT %s", (str(vector), limit)
        )
        return [{"id": row[0], "title": row[1]} for row in rows]
