import json
import os

import redis
from qdrant_client import QdrantClient
from qdrant_client.models import PointStruct
from sentence_transformers import SentenceTransformer

queue = redis.Redis(host="queue")
store = QdrantClient(host="store")
model = SentenceTransformer(os.environ["MODEL_NAME"], device="cuda")


def take(limit=64):
    """Up to `limit` documents; waits for the first."""
    rows = [json.loads(queue.blpop("documents")[1])]
    while len(rows) < limit and (row := queue.lpop("documents")) is not None:
        rows.append(json.loads(row))
    return rows


def main():
    while True:
        rows = take()
        vectors = model.encode([row["text"] for row in rows], batch_size=64, normalize_embeddings=True)
        points = [
            PointStruct(id=row["id"], vector=vector.tolist(), payload={"title": row["title"]})
            for row, vector in zip(rows, vectors)
        ]
        store.upsert("documents", points)


if __name__ == "__main__":
    main()
