import argparse
import os

import torch
from datasets import load_from_disk
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

NAME = "EleutherAI/pythia-1.4b"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    tokenizer.pad_token = tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(
        NAME,
        torch_dtype=torch.bfloat16,
        device_map="auto",
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="/opt/ml/checkpoints",
            num_train_epochs=args.epochs,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=8,
            gradient_checkpointing=True,
            bf16=True,
            save_total_limit=2,
            dataloader_num_workers=4,
            report_to="none",
        ),
        train_dataset=load_from_disk(os.environ["SM_CHANNEL_TEXT"]),
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])


if __name__ == "__main__":
    main()
