"""SageMaker and the HF Trainer."""

import argparse
import os

import numpy as np
from datasets import load_from_disk
from sklearn.metrics import accuracy_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--model_name", type=str, default="distilbert-base-uncased")
    parser.add_argument("--fp16", type=bool, default=False)
    parser.add_argument("--model_dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--n_gpus", type=str, default=os.environ["SM_NUM_GPUS"])
    parser.add_argument("--training_dir", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    args, _ = parser.parse_known_args()

    train_dataset = load_from_disk(args.training_dir)

    def compute_metrics(pred):
        return {"accuracy": accuracy_score(pred.label_ids, np.argmax(pred.predictions, 1))}

    model = AutoModelForSequenceClassification.from_pretrained(args.model_name)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    training_args = TrainingArguments(
        output_dir=args.model_dir,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.train_batch_size,
        fp16=args.fp16,
    )
    trainer = Trainer(
        model=model, args=training_args, compute_metrics=compute_metrics, train_dataset=train_dataset
    )
    trainer.train()
    trainer.save_model(args.model_dir)
