"""Fine-tunes a language model with Accelerate, and a checkpoint per epoch if asked to."""

import argparse
import os

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from datasets import load_dataset
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator, get_scheduler


def parse_args():
    parser = argparse.ArgumentParser(description="causal language modelling")
    parser.add_argument("--model_name", type=str, default="gpt2")
    parser.add_argument("--output_dir", type=str, default=None)
    parser.add_argument("--checkpointing_steps", type=str, default=None)
    parser.add_argument("--num_train_epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    return args


def main():
    args = parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    if args.seed is not None:
        set_seed(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model_name)
    model = AutoModelForCausalLM.from_pretrained(args.model_name)
    raw = load_dataset("wikitext", "wikitext-2-raw-v1")
    tokenized = raw.map(lambda rows: tokenizer(rows["text"]), batched=True)
    loader = DataLoader(tokenized["train"], shuffle=True, collate_fn=default_data_collator, batch_size=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scheduler = get_scheduler("linear", optimizer, 0, args.num_train_epochs * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    bar = tqdm(range(args.num_train_epochs * len(loader)), disable=not accelerator.is_local_main_process)
    for epoch in range(args.num_train_epochs):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            bar.update(1)
        if args.checkpointing_steps == "epoch":
            accelerator.save_state(os.path.join(args.output_dir, f"epoch_{epoch}"))
    if args.output_dir is not None:
        accelerator.wait_for_everyone()
        accelerator.unwrap_model(model).save_pretrained(args.output_dir, save_function=accelerator.save)
        if accelerator.is_main_process:
            torch.save(args, "training_args.bin")


if __name__ == "__main__":
    main()
