"""The Trainer under DeepSpeed: "auto" in zero3.json takes the values from TrainingArguments."""

import argparse
import os

from datasets import load_from_disk
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
    set_seed,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_id", required=True)
    parser.add_argument("--epochs", type=float, default=1)
    args, _ = parser.parse_known_args()
    set_seed(1)
    training = TrainingArguments(
        output_dir="/opt/ml/checkpoints",
        deepspeed=os.path.join(os.path.dirname(__file__), "zero3.json"),
        num_train_epochs=args.epochs,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        bf16=True,
        learning_rate=1e-5,
        save_strategy="no",
        logging_steps=10,
        dataloader_num_workers=4,
        report_to="none",
    )
    tokenizer = AutoTokenizer.from_pretrained(args.model_id)
    model = AutoModelForCausalLM.from_pretrained(args.model_id, torch_dtype="auto", use_cache=False)
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=load_from_disk(os.environ["SM_CHANNEL_TRAIN"]),
        data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    main()
