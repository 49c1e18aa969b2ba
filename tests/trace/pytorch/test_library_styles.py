"""Training scripts in the styles of the libraries that people use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.traced_scripts import trace_of

skip_without("accelerate", "lightning", "peft", "transformers")
pytestmark = pytest.mark.slow

TRAINER = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, index):
        tokens = torch.randint(0, 1000, (32,))
        return {"input_ids": tokens, "labels": tokens}


model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=1000, bos_token_id=0, eos_token_id=0))
arguments = TrainingArguments(
    output_dir="out", per_device_train_batch_size=8, gradient_accumulation_steps=2, num_train_epochs=4, bf16=True,
    gradient_checkpointing=True, report_to=[],
)
Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
"""


def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, TRAINER)
    assert (trace.mode, trace.optimizer, trace.precision) == ("training", "AdamW", "amp-bfloat16")
    assert trace.checkpointing
    # Two batches of eight in each of 40 steps.
    assert (trace.input.samples, trace.input.steps_per_epoch) == (8, 40)
    assert not (tmp_path / "out").exists()


ACCELERATE = """
import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)
model = torch.nn.Linear(256, 1024, bias=False)
data = torch.utils.data.TensorDataset(torch.randn(640, 256))
loader = torch.utils.data.DataLoader(data, batch_size=16)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for (rows,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(rows).mean())
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""


def test_accelerate_with_accumulated_gradients(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, ACCELERATE)
    assert (trace.precision, trace.input.samples, trace.input.steps_per_epoch) == ("amp-float16", 16, 10)
    (forward,) = (
        operator for operator in trace.operators if operator.kind == "gemm" and operator.phase == "forward"
    )
    assert (forward.calls, forward.gemm, forward.dtype) == (4, (1, 16, 1024, 256), "float16")


LIGHTNING = """
import lightning
import torch


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 16, bias=False)

    def training_step(self, batch, index):
        rows, labels = batch
        loss = torch.nn.functional.cross_entropy(self.layer(rows), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("validation", self.layer(batch[0]).sum())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


data = torch.utils.data.TensorDataset(torch.randn(640, 256), torch.randint(0, 16, (640,)))
loader = torch.utils.data.DataLoader(data, batch_size=32, num_workers=2)
trainer = lightning.Trainer(max_epochs=3, accelerator="gpu", devices=1, precision="16-mixed", enable_progress_bar=False)
trainer.fit(Classifier(), loader, loader)
"""


def test_lightning(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LIGHTNING)
    assert (trace.mode, trace.optimizer, trace.precision) == ("training", "Adam", "amp-float16")
    assert (trace.input.samples, trace.input.steps_per_epoch, trace.input.workers) == (32, 20, 2)
    assert trace.parameters == 256 * 16
    assert not (tmp_path / "lightning_logs").exists()


LLAMA_7B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "dtype": "bfloat16",
}
LORA = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("llama", device_map="auto")
model.gradient_checkpointing_enable()
model.enable_input_require_grads()
model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
model.train()
optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
for _ in range(2):
    tokens = torch.randint(0, 32000, (2, 512), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_lora_of_a_model_with_seven_billion_parameters(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps(LLAMA_7B))
    trace = trace_of(tmp_path, LORA, "--steps", "2")
    # Four projections, three of the feed-forward network, two norms; two embeddings and the last norm.
    block = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    # Two matrices for each of two projections.
    adapters = 32 * 2 * 2 * 16 * 4096
    assert trace.trainable == adapters
    assert trace.parameters == 32 * block + 2 * 32000 * 4096 + 4096 + adapters
    assert trace.checkpointing
    assert trace.peak_rss < 4 << 30


EVALUATES_FIRST = """
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Rows(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return {"input_ids": torch.ones(16, dtype=torch.long), "labels": index % 2}

config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
options = TrainingArguments("out", per_device_train_batch_size=4, report_to=[])
trainer = Trainer(BertForSequenceClassification(config), options, train_dataset=Rows(), eval_dataset=Rows())
assert "eval_loss" in trainer.evaluate()
trainer.train()
"""


def test_a_trainer_that_evaluates_before_it_trains(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, EVALUATES_FIRST)
    assert (trace.mode, trace.steps, trace.input.samples) == ("training", 3, 4)
