"""Stars of restaurant reviews."""

from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

ROWS = Dataset.from_csv("reviews.csv")
tokenizer = AutoTokenizer.from_pretrained("roberta-base")


def encode(rows):
    return tokenizer(rows["text"], truncation=True, padding="max_length", max_length=192)


def main():
    rows = ROWS.map(encode, batched=True)
    rows = rows.map(lambda row: {"stars": int(row["stars"]) - 1})
    rows.set_format("torch", columns=["input_ids", "attention_mask", "stars"])
    split = rows.train_test_split(test_size=0.1, seed=3)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=5)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="stars",
            eval_strategy="epoch",
            save_strategy="steps",
            load_best_model_at_end=True,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=64,
            num_train_epochs=2,
            fp16=True,
            dataloader_num_workers=4,
        ),
        train_dataset=split["train"],
        eval_dataset=split["test"],
    )
    trainer.train()
    trainer.save_model("stars/final")


if __name__ == "__main__":
    main()
