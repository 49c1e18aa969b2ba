import os

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from datasets import load_from_disk
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, default_data_collator


def main():
    accelerator = Accelerator()
    rows = load_from_disk(os.environ["SM_CHANNEL_PAIRS"])
    loader = DataLoader(rows, batch_size=32, shuffle=True, num_workers=1, collate_fn=default_data_collator)
    student = AutoModelForSequenceClassification.from_pretrained("distilroberta-base", num_labels=2)
    teacher = AutoModelForSequenceClassification.from_pretrained("textattack/roberta-base-SST-2", num_labels=2)
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-5)
    student, optimizer, loader = accelerator.prepare(student, optimizer, loader)
    teacher = teacher.to(accelerator.device)
    student.train()
    for _ in range(3):
        for batch in loader:
            with torch.no_grad():
                target = teacher(**batch).logits.softmax(-1)
            logits = student(**batch).logits.log_softmax(-1)
            loss = F.kl_div(logits, target, reduction="batchmean")
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    accelerator.wait_for_everyone()
    accelerator.unwrap_model(student).save_pretrained(
        os.environ["SM_MODEL_DIR"], is_main_process=accelerator.is_main_process
    )


if __name__ == "__main__":
    main()
