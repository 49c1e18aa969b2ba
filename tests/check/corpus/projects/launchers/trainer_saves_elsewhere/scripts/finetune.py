import argparse
import os

from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--model_name", default="distilbert-base-uncased")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--fp16", type=lambda text: text.lower() in ("1", "yes", "true"), default=False)
args = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(args.model_name)
data = load_dataset("json", data_files=os.path.join(os.environ["SM_CHANNEL_TRAIN"], "mail.jsonl"), split="train")
data = data.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=256), batched=True, num_proc=4)
data = data.train_test_split(0.1, seed=2)
model = AutoModelForSequenceClassification.from_pretrained(args.model_name, num_labels=6)
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="/opt/ml/checkpoints",
        num_train_epochs=args.epochs,
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        fp16=args.fp16,
        evaluation_strategy="epoch",
        dataloader_num_workers=4,
        report_to="none",
    ),
    train_dataset=data["train"],
    eval_dataset=data["test"],
    tokenizer=tokenizer,
)
trainer.train()
trainer.save_model("outputs/final")
