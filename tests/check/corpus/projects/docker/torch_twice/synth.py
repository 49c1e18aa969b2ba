"""Turns text files into speech as they arrive."""

import argparse
import time
from pathlib import Path

import soundfile
import torch
from transformers import AutoTokenizer, VitsModel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watch", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("/audio"))
    args = parser.parse_args()
    device = torch.device("cuda")
    tokenizer = AutoTokenizer.from_pretrained("facebook/mms-tts-eng")
    model = VitsModel.from_pretrained("facebook/mms-tts-eng").to(device)
    while True:
        for path in sorted(args.watch.glob("*.txt")):
            inputs = tokenizer(path.read_text(), return_tensors="pt").to(device)
            with torch.no_grad():
                wave = model(**inputs).waveform[0]
            soundfile.write(args.out / f"{path.stem}.wav", wave.cpu().numpy(), model.config.sampling_rate)
            path.unlink()
        time.sleep(1)


if __name__ == "__main__":
    main()
