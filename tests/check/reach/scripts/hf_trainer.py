"""Fine-tunes a classifier with the Trainer."""

import logging
import sys
from dataclasses import dataclass, field
from typing import Optional

import evaluate
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    model_name_or_path: str = field(default="distilbert-base-uncased")
    cache_dir: Optional[str] = field(default=None)


@dataclass
class DataArguments:
    task: str = field(default="sst2")
    max_length: int = field(default=128)


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    logging.basicConfig(handlers=[logging.StreamHandler(sys.stdout)], level=logging.INFO)
    raw = load_dataset("glue", data_args.task)
    tokenizer = AutoTokenizer.from_pretrained(model_args.model_name_or_path)
    model = AutoModelForSequenceClassification.from_pretrained(model_args.model_name_or_path, num_labels=2)

    def tokenize(rows):
        return tokenizer(rows["sentence"], truncation=True, max_length=data_args.max_length)

    data = raw.map(tokenize, batched=True)
    metric = evaluate.load("accuracy")

    def compute_metrics(prediction):
        return metric.compute(predictions=np.argmax(prediction.predictions, 1), references=prediction.label_ids)

    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=data["train"] if training_args.do_train else None,
        eval_dataset=data["validation"],
        compute_metrics=compute_metrics,
        processing_class=tokenizer,
    )
    if training_args.do_train:
        result = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
        trainer.save_model()
        trainer.log_metrics("train", result.metrics)
    if training_args.push_to_hub:
        trainer.push_to_hub()


if __name__ == "__main__":
    main()
