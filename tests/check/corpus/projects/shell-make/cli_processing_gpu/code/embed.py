import json
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

NAME = "sentence-transformers/all-MiniLM-L6-v2"
INPUT = Path("/opt/ml/processing/input/texts")
OUTPUT = Path("/opt/ml/processing/vectors")


def main():
    model = SentenceTransformer(NAME, device="cpu")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for path in sorted(INPUT.glob("*.jsonl")):
        with path.open() as file:
            texts = [json.loads(line)["text"] for line in file]
        vectors = model.encode(texts, batch_size=256, show_progress_bar=False)
        np.save(OUTPUT / f"{path.stem}.npy", vectors)


if __name__ == "__main__":
    main()
