import evaluate
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

CHECKPOINT = "google/flan-t5-base"
tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
rouge = evaluate.load("rouge")


def encode(rows):
    encoded = tokenizer(["summarize: " + text for text in rows["dialogue"]], max_length=512, truncation=True)
    encoded["labels"] = tokenizer(text_target=rows["summary"], max_length=128, truncation=True)["input_ids"]
    return encoded


def score(output):
    predictions, labels = output
    predictions = np.where(predictions != -100, predictions, tokenizer.pad_token_id)
    labels = np.where(labels != -100, labels, tokenizer.pad_token_id)
    return rouge.compute(
        predictions=tokenizer.batch_decode(predictions, skip_special_tokens=True),
        references=tokenizer.batch_decode(labels, skip_special_tokens=True),
    )


def main():
    data = load_dataset("knkarthick/samsum").map(encode, batched=True)
    model = AutoModelForSeq2SeqLM.from_pretrained(CHECKPOINT)
    arguments = Seq2SeqTrainingArguments(
        output_dir="flan-samsum",
        evaluation_strategy="epoch",
        save_strategy="epoch",
        learning_rate=1e-4,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=16,
        num_train_epochs=4,
        predict_with_generate=True,
        max_target_length=128,
        bf16=True,
        dataloader_num_workers=4,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=score,
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
