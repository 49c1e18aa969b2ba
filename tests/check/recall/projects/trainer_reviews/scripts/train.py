"""Fine-tune a transformer on product reviews with transformers' Trainer."""

import os
from dataclasses import dataclass, field

import numpy as np
from datasets import load_from_disk
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint


@dataclass
class ScriptArguments:
    model_name: str = field(default="distilbert/distilbert-base-uncased")
    train_dir: str = field(default=os.environ.get("SM_CHANNEL_TRAIN", "data/train"))
    test_dir: str = field(default=os.environ.get("SM_CHANNEL_TEST", "data/test"))
    model_dir: str = field(default=os.environ.get("SM_MODEL_DIR", "model"))
    epochs: int = field(default=3)
    train_batch_size: int = field(default=32)
    eval_batch_size: int = field(default=64)
    learning_rate: float = field(default=5e-5)
    max_length: int = field(default=256)


def compute_metrics(prediction):
    predicted = np.argmax(prediction.predictions, axis=-1)
    return {"accuracy": float((predicted == prediction.label_ids).mean())}


def main():
    (arguments,) = HfArgumentParser(ScriptArguments).parse_args_into_dataclasses()
    set_seed(42)
    tokenizer = AutoTokenizer.from_pretrained(arguments.model_name)

    def tokenize(batch):
        return tokenizer(batch["text"], truncation=True, max_length=arguments.max_length)

    train_dataset = load_from_disk(arguments.train_dir).map(tokenize, batched=True, num_proc=4)
    test_dataset = load_from_disk(arguments.test_dir).map(tokenize, batched=True, num_proc=4)
    model = AutoModelForSequenceClassification.from_pretrained(arguments.model_name, num_labels=2)

    training_arguments = TrainingArguments(
        output_dir="/opt/ml/checkpoints",
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.train_batch_size,
        per_device_eval_batch_size=arguments.eval_batch_size,
        learning_rate=arguments.learning_rate,
        warmup_steps=200,
        bf16=True,
        dataloader_num_workers=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="accuracy",
        logging_steps=50,
        report_to="none",
    )
    trainer = Trainer(
        model=model,
        args=training_arguments,
        train_dataset=train_dataset,
        eval_dataset=test_dataset,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=compute_metrics,
    )
    last_checkpoint = (
        get_last_checkpoint("/opt/ml/checkpoints") if os.path.isdir("/opt/ml/checkpoints") else None
    )
    trainer.train(resume_from_checkpoint=last_checkpoint)
    print(trainer.evaluate())
    trainer.save_model(arguments.model_dir)
    tokenizer.save_pretrained(arguments.model_dir)


if __name__ == "__main__":
    main()
