import math

import torch
from accelerate import Accelerator
from datasets import load_from_disk
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    get_linear_schedule_with_warmup,
)

NAME = "FacebookAI/xlm-roberta-base"
EPOCHS = 3


def main():
    accelerator = Accelerator()
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    data = load_from_disk("/data/patents")
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    train = DataLoader(data["train"], batch_size=32, shuffle=True, collate_fn=collate, num_workers=4)
    test = DataLoader(data["test"], batch_size=64, collate_fn=collate, num_workers=4)
    model = AutoModelForMaskedLM.from_pretrained(NAME)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)
    total = len(train) * EPOCHS
    scheduler = accelerator.prepare(
        get_linear_schedule_with_warmup(
            optimizer,
            num_warmup_steps=500,
            num_training_steps=total,
        )
    )
    for epoch in range(EPOCHS):
        model.train()
        for batch in train:
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        model.eval()
        losses = []
        for batch in test:
            outputs = model(**batch)
            losses.append(accelerator.gather(outputs.loss))
        accelerator.print(epoch, math.exp(torch.cat([loss.view(-1) for loss in losses]).mean().item()))
    accelerator.wait_for_everyone()
    accelerator.save_model(model, "patents-mlm")


if __name__ == "__main__":
    main()
