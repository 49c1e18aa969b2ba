import argparse
import os

import evaluate
import numpy as np
from datasets import load_from_disk
from labels import NAMES, align
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--base-model", default="bert-base-cased")
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(args.base_model)
metric = evaluate.load("seqeval")


def encode(rows):
    encoded = tokenizer(rows["tokens"], truncation=True, is_split_into_words=True)
    encoded["labels"] = [align(encoded.word_ids(i), tags) for i, tags in enumerate(rows["ner_tags"])]
    return encoded


def score(prediction):
    chosen = np.argmax(prediction.predictions, axis=2)
    pairs = [
        [(NAMES[p], NAMES[label]) for p, label in zip(row, labels) if label != -100]
        for row, labels in zip(chosen, prediction.label_ids)
    ]
    result = metric.compute(
        predictions=[[pair[0] for pair in row] for row in pairs],
        references=[[pair[1] for pair in row] for row in pairs],
    )
    return {"f1": result["overall_f1"]}


data = load_from_disk(os.environ["SM_CHANNEL_CONLL"]).map(encode, batched=True)
model = AutoModelForTokenClassification.from_pretrained(args.base_model, num_labels=len(NAMES))
training = TrainingArguments(
    output_dir="/tmp/ner",
    num_train_epochs=args.epochs,
    per_device_train_batch_size=32,
    eval_strategy="epoch",
    save_strategy="epoch",
    load_best_model_at_end=True,
    metric_for_best_model="f1",
    dataloader_num_workers=4,
    use_cpu=True,
)
trainer = Trainer(
    model=model,
    args=training,
    train_dataset=data["train"],
    eval_dataset=data["validation"],
    data_collator=DataCollatorForTokenClassification(tokenizer),
    compute_metrics=score,
)
trainer.train()
trainer.save_model("ner-model")
