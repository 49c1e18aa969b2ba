import json

import torch


def build(folder):
    vocabulary = {"good": 1, "bad": 2, "film": 3}
    config = {"vocabulary": vocabulary, "labels": ["NEGATIVE", "POSITIVE"]}
    (folder / "config.json").write_text(json.dumps(config))
    table = torch.tensor([[0.0, 0.0], [-2.0, 2.0], [2.0, -2.0], [0.0, 0.0]])
    torch.save({"embedding.weight": table}, folder / "pytorch_model.bin")
