"""Evaluation alone: no training data, no optimizer, and a small batch on whatever the host has."""

import argparse

import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


def score(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, axis=1) == prediction.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("--cpu", action="store_true", help="stay on the CPU")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.checkpoint)
    data = load_dataset("rotten_tomatoes", split="test")
    data = data.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
    trainer = Trainer(
        model=AutoModelForSequenceClassification.from_pretrained(args.checkpoint),
        args=TrainingArguments(
            output_dir="/tmp/evaluation",
            per_device_eval_batch_size=64,
            use_cpu=args.cpu,
            dataloader_num_workers=2,
            report_to="none",
        ),
        eval_dataset=data,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
        compute_metrics=score,
    )
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
