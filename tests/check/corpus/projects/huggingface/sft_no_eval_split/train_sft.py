"""Supervised fine-tuning of a small chat model with LoRA."""

from dataclasses import dataclass, field

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoTokenizer, HfArgumentParser
from trl import SFTConfig, SFTTrainer


@dataclass
class ScriptArguments:
    model_id: str = field(default="Qwen/Qwen2.5-0.5B-Instruct", metadata={"help": "The model to tune."})
    data_file: str = field(default="data/dialogs.jsonl")
    output_dir: str = field(default="outputs/sft")
    rank: int = field(default=16)


def main():
    args = HfArgumentParser(ScriptArguments).parse_args_into_dataclasses()[0]
    dataset = load_dataset("json", data_files=args.data_file).shuffle(seed=1)
    dataset = dataset["train"].train_test_split(test_size=0.02, seed=1)
    tokenizer = AutoTokenizer.from_pretrained(args.model_id)
    config = SFTConfig(
        output_dir=args.output_dir,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        learning_rate=2e-4,
        lr_scheduler_type="cosine",
        warmup_ratio=0.03,
        bf16=True,
        fp16=True,
        max_seq_length=2048,
        eval_strategy="steps",
        eval_steps=200,
        save_steps=200,
        logging_steps=10,
        report_to="none",
        dataloader_num_workers=2,
    )
    peft_config = LoraConfig(
        r=args.rank,
        lora_alpha=2 * args.rank,
        lora_dropout=0.05,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    trainer = SFTTrainer(
        model=args.model_id,
        args=config,
        train_dataset=dataset["train"],
        eval_dataset=dataset["train"],
        peft_config=peft_config,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
