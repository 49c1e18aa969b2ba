from dataclasses import dataclass
from typing import Any


@dataclass
class SpeechCollator:
    """Pads features and labels apart, and hides the padding of the labels from the loss."""

    processor: Any
    start: int

    def __call__(self, rows):
        batch = self.processor.feature_extractor.pad(
            [{"input_features": row["input_features"]} for row in rows], return_tensors="pt"
        )
        labels = self.processor.tokenizer.pad([{"input_ids": row["labels"]} for row in rows], return_tensors="pt")
        ids = labels["input_ids"].masked_fill(labels["attention_mask"].ne(1), -100)
        if (ids[:, 0] == self.start).all():
            ids = ids[:, 1:]
        batch["labels"] = ids
        return batch
