"""The Trainer's own count of FLOPs, and its precision."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.timed_scripts import run_timed

skip_without("torch", "transformers", "accelerate")

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 32
    def __getitem__(self, index):
        ids = torch.arange(16) + index % 4
        return {"input_ids": ids, "labels": ids}

model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=2))
arguments = TrainingArguments(
    "out", max_steps=3, per_device_train_batch_size=4, gradient_accumulation_steps=2, report_to=[], use_cpu=True,
    disable_tqdm=True, save_strategy="no", PRECISION
)
Trainer(model, arguments, train_dataset=Rows()).train()
print("parameters", model.num_parameters(exclude_embeddings=True))
"""


@pytest.mark.parametrize(("option", "precision"), [("", "float32"), ("bf16=True", "bfloat16")])
def test_a_step_has_the_flops_of_all_its_batches(option: str, precision: str, tmp_path: Path) -> None:
    timed = run_timed(tmp_path, SCRIPT.replace("PRECISION", option))
    assert timed.code == 0, timed.errors
    parameters = int(timed.output.split("parameters ")[1].split()[0])
    record = timed.record
    # Six FLOPs for each parameter and token, in two batches of four rows with 16 tokens.
    assert record["flops_per_step"] == 6 * parameters * 2 * 4 * 16
    assert (record["flops_source"], record["precision"]) == ("transformers", precision)
