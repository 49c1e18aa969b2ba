from dataclasses import dataclass

import torch
from datasets import load_from_disk
from torch.utils.data import DataLoader
from transformers import AutoModelForAudioClassification


def collate(rows):
    audio = [torch.tensor(row["input_values"][:80_000]) for row in rows]
    audio = torch.nn.utils.rnn.pad_sequence(audio, batch_first=True)
    return audio, torch.tensor([row["label"] for row in rows])


@dataclass
class Finetune:
    checkpoint: str
    data: str
    epochs: int = 8
    lr: float = 3e-5

    def __call__(self):
        device = torch.device("cuda")
        rows = load_from_disk(self.data)["train"]
        loader = DataLoader(rows, batch_size=16, shuffle=True, num_workers=10, collate_fn=collate)
        model = AutoModelForAudioClassification.from_pretrained(self.checkpoint, num_labels=14).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.lr)
        model.train()
        for epoch in range(self.epochs):
            total = 0
            for audio, labels in loader:
                loss = model(audio.to(device), labels=labels.to(device)).loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss
            print(epoch, float(total) / len(loader), flush=True)
        model.save_pretrained(f"{self.checkpoint}-minds14")
        return float(total)
