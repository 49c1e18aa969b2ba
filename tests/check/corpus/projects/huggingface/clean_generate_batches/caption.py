"""Caption a folder of pictures in batches, in bfloat16; from_pretrained models are in evaluation mode."""

import argparse
import json
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from transformers import AutoProcessor, Blip2ForConditionalGeneration


class Pictures(Dataset):
    def __init__(self, folder):
        self.paths = sorted(Path(folder).glob("**/*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        return str(path), Image.open(path).convert("RGB")


def collate(rows):
    return [row[0] for row in rows], [row[1] for row in rows]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--output", default="captions.jsonl")
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    processor = AutoProcessor.from_pretrained("Salesforce/blip2-opt-2.7b")
    model = Blip2ForConditionalGeneration.from_pretrained(
        "Salesforce/blip2-opt-2.7b", torch_dtype=torch.bfloat16
    ).to(device)
    loader = DataLoader(Pictures(args.folder), batch_size=args.batch_size, collate_fn=collate, num_workers=6)
    with open(args.output, "w") as output:
        for paths, pictures in loader:
            inputs = processor(images=pictures, return_tensors="pt").to(device, torch.bfloat16)
            ids = model.generate(**inputs, max_new_tokens=40)
            for path, text in zip(paths, processor.batch_decode(ids, skip_special_tokens=True)):
                output.write(json.dumps({"file": path, "caption": text.strip()}) + "\n")


if __name__ == "__main__":
    main()
