import argparse
import os

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DPOConfig, DPOTrainer

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="HuggingFaceTB/SmolLM2-360M-Instruct")
    parser.add_argument("--beta", type=float, default=0.1)
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.bfloat16)
    ref_model = AutoModelForCausalLM.from_pretrained(args.model)
    files = os.path.join(os.environ["SM_CHANNEL_PAIRS"], "*.jsonl")
    pairs = load_dataset("json", data_files=files, split="train")
    config = DPOConfig(
        output_dir="dpo-checkpoints",
        beta=args.beta,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=8,
        gradient_checkpointing=True,
        bf16=True,
        save_steps=100,
        logging_steps=10,
        report_to="none",
        dataloader_num_workers=2,
    )
    trainer = DPOTrainer(
        model=model, ref_model=ref_model, args=config, train_dataset=pairs, processing_class=tokenizer
    )
    trainer.train()
    trainer.save_model(os.environ["SM_MODEL_DIR"])
