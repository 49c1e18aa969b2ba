import numpy as np
import torch
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    TrainingArguments,
)
from weighted import WeightedTrainer

NAME = "FacebookAI/roberta-base"


def score(prediction):
    found = np.argmax(prediction.predictions, axis=1)
    known = prediction.label_ids
    hits = ((found == 1) & (known == 1)).sum()
    precision, recall = hits / max((found == 1).sum(), 1), hits / max((known == 1).sum(), 1)
    return {"f1": float(2 * precision * recall / max(precision + recall, 1e-9))}


def main():
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    data = load_dataset("csv", data_files={"train": "train.csv", "validation": "validation.csv"})
    data = data.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
    share = float(np.mean(data["train"]["label"]))
    trainer = WeightedTrainer(
        model=AutoModelForSequenceClassification.from_pretrained(NAME, num_labels=2),
        args=TrainingArguments(
            output_dir="fraud",
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="f1",
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            num_train_epochs=8,
            learning_rate=2e-5,
            bf16=torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
            fp16=torch.cuda.is_available() and not torch.cuda.is_bf16_supported(),
            dataloader_num_workers=4,
        ),
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=score,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        weights=torch.tensor([share, 1 - share]),
    )
    trainer.train()
    trainer.save_model("fraud/best")


if __name__ == "__main__":
    main()
