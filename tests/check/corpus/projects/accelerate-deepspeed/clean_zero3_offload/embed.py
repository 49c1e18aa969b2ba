"""Contrastive tuning of sentence embeddings under ZeRO-3; the settings are in ds_zero3.yaml."""

import json

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import DummyOptim, DummyScheduler
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModel, AutoTokenizer


class Pairs(Dataset):
    def __init__(self, path):
        with open(path) as file:
            self.rows = [json.loads(line) for line in file]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]["question"], self.rows[index]["passage"]


def pool(output, mask):
    mask = mask.unsqueeze(-1).to(output.dtype)
    return F.normalize((output * mask).sum(1) / mask.sum(1), dim=-1)


def main():
    accelerator = Accelerator()
    tokenizer = AutoTokenizer.from_pretrained("intfloat/e5-mistral-7b-instruct")
    model = AutoModel.from_pretrained("intfloat/e5-mistral-7b-instruct", torch_dtype=torch.bfloat16)
    model.gradient_checkpointing_enable()

    def collate(rows):
        texts = [row[0] for row in rows] + [row[1] for row in rows]
        return tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")

    loader = DataLoader(
        Pairs("pairs.jsonl"), batch_size=8, shuffle=True, collate_fn=collate, num_workers=2, drop_last=True
    )
    optimizer = DummyOptim(model.parameters(), lr=1e-5)
    scheduler = DummyScheduler(optimizer, total_num_steps=len(loader), warmup_num_steps=100)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    model.train()
    for batch in loader:
        vectors = pool(model(**batch).last_hidden_state, batch["attention_mask"])
        questions, passages = vectors.chunk(2)
        scores = questions @ passages.T / 0.05
        loss = F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(model).save_pretrained(
        "e5-tuned",
        is_main_process=accelerator.is_main_process,
        save_function=accelerator.save,
        state_dict=accelerator.get_state_dict(model),
    )


if __name__ == "__main__":
    main()
