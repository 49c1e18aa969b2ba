import argparse

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

from lora import inject, trained_state


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="roberta-base")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    raw = load_dataset("glue", "mrpc")
    encoded = raw.map(
        lambda rows: tokenizer(rows["sentence1"], rows["sentence2"], truncation=True),
        batched=True,
        remove_columns=["sentence1", "sentence2", "idx"],
    ).rename_column("label", "labels")
    collate = DataCollatorWithPadding(tokenizer)
    train = DataLoader(encoded["train"], 32, shuffle=True, collate_fn=collate, num_workers=4)
    valid = DataLoader(encoded["validation"], 64, collate_fn=collate, num_workers=4)

    model = AutoModelForSequenceClassification.from_pretrained(args.model, num_labels=2)
    adapters = inject(model)
    model.classifier.requires_grad_(True)
    model.to(device)
    optimizer = torch.optim.AdamW([*adapters, *model.classifier.parameters()], lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        for batch in train:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        model.eval()
        hits = 0
        with torch.inference_mode():
            for batch in valid:
                hits += (model(**batch).logits.argmax(-1) == batch["labels"]).sum().item()
        print(f"epoch {epoch} accuracy {hits / len(encoded['validation']):.3f}")
    torch.save(trained_state(model), "adapter.pt")


if __name__ == "__main__":
    main()
