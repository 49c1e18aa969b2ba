import argparse
import os

import numpy as np
from datasets import load_from_disk
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


def metrics(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, -1) == prediction.label_ids).mean())}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--model_id", type=str, default="distilbert-base-uncased")
    parser.add_argument("--train_dir", default=os.environ["SM_CHANNEL_TRAIN"])
    parser.add_argument("--test_dir", default=os.environ["SM_CHANNEL_TEST"])
    args, _ = parser.parse_known_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model_id)

    def tokenize(batch):
        return tokenizer(batch["text"], truncation=True, padding="max_length", max_length=128)

    train, test = (load_from_disk(d).map(tokenize, batched=True) for d in (args.train_dir, args.test_dir))
    model = AutoModelForSequenceClassification.from_pretrained(args.model_id, num_labels=6)
    arguments = TrainingArguments(
        output_dir="/opt/ml/checkpoints",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=64,
        per_device_eval_batch_size=128,
        evaluation_strategy="epoch",
        fp16=True,
        dataloader_num_workers=4,
        report_to=[],
    )
    trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=test, compute_metrics=metrics)
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])
