import argparse

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=float, default=1)
    args = parser.parse_args()
    trainer = SFTTrainer(
        model="meta-llama/Llama-3.2-1B",
        train_dataset=load_dataset("json", data_files="/cache/notes.jsonl", split="train"),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
        args=SFTConfig(
            output_dir="/cache/llama-notes",
            num_train_epochs=args.epochs,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=4,
            bf16=True,
            logging_steps=10,
            dataloader_num_workers=2,
            report_to="none",
        ),
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
